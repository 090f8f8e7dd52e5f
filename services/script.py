"""A study run to its end in a script, on logs in memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log.base import Record
from stream_dp.log.memory import MemoryLog
from stream_dp.plan import plan_study
from stream_dp.population.tables import TableLayout
from stream_dp.privacy.noise import SeededNoise, SystemNoise
from stream_dp.study import Study

from .markers import close_marker
from .releaser.releaser import Releaser
from .reports import encoded_reports
from .snapshots import Snapshots
from .topics import CLOCK, REPORTS


def run_study(
    study: Study,
    reports: pa.Table,
    *,
    attribute: str | None = None,
    simulation_seed: int | None = None,
) -> PublicLog:
    """What a study publishes of a table of reports, from its first period to its last.

    The releaser runs as it does in the service, on logs in memory, which end with the script: what
    it publishes is all there is. A second run with the same reports spends the budget again.

    study: one whose periods close by markers, without batch releases.
    reports: long (columns `person`, `period` and one for each attribute), or wide.
    attribute: for a wide table (columns `person` and one for each period), the attribute that
        its cells are of.
    simulation_seed: for simulations only: repeatable noise, which protects nobody; every
        certificate says that it is simulated. By default noise is from the system's entropy.

    Raises UserError.
    """
    if study.periods.close != "marker":
        raise UserError("run_study: this study closes by its schedule; declare close = 'marker'")
    if study.batches:
        raise UserError(
            "run_study: releases of groups need a worker; run the study with 'stream-dp run', or"
            " fit their tables with a synthesizer"
        )
    log, public = MemoryLog(timed=(REPORTS, CLOCK)), MemoryLog()
    noise = SystemNoise() if simulation_seed is None else SeededNoise(simulation_seed)
    with TemporaryDirectory(prefix="stream-dp-") as name:
        folder = Path(name)
        table = folder / "reports.parquet"
        pyarrow.parquet.write_table(reports, table)
        log.create({REPORTS: 1})
        for batch in encoded_reports(table, study, TableLayout(attribute=attribute), quiet=True):
            log.append(Record(REPORTS, value, key.encode()) for key, value in batch)
        log.append([close_marker(study.periods.count, 0)])
        snapshots = Snapshots("snapshots", folder)
        Releaser(plan_study(study), log, public, snapshots, source=noise).run(until_idle=True)
    return PublicLog(public)
