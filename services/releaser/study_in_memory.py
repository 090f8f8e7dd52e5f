"""Runs a study to its end in a script, on logs in memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from stream_dp.batch.kinds import require_available
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log.log import Log, Record
from stream_dp.log.memory import MemoryLog
from stream_dp.planning.plan import plan_study
from stream_dp.population.arrow_tables import ArrowStream, NamedTable, arrow_table
from stream_dp.population.cells import Reason
from stream_dp.population.tables import Judgement, TableLayout
from stream_dp.population.tables.reading_facts import reading_lines, stated_layout
from stream_dp.privacy.noise import NoiseSource, noise_source
from stream_dp.study import Study
from stream_dp.study.study import checked_study
from stream_dp.study.topics import CLOCK, REPORTS

from ..intake.dead_letters import Placing, read_rejections, rejections_text
from ..intake.group_files import RosterTables, read_places, read_roster
from ..intake.group_tables import PlacesTable, Roster, commit_table
from ..intake.markers import close_marker
from ..intake.python_remedies import in_python
from ..intake.sending import KnownReports, encoded_reports
from ..intake.table_judging import fault_table, judge_tables, table_notices
from ..process.events import Event
from ..storage.snapshots import Snapshots
from .releaser import Releaser
from .releaser_facts import Context
from .worker import Worker


def run_study(
    study: Study,
    reports: ArrowStream,
    *,
    attribute: str | None = None,
    groups: ArrowStream | None = None,
    members: ArrowStream | None = None,
    group_key: str = "group",
    places: ArrowStream | None = None,
    reading: Mapping[str, object] | None = None,
    strict: bool = False,
    simulation_seed: int | None = None,
) -> PublicLog:
    """The public log of a study that is run over a table of reports, with all its periods.

    The releaser runs as in the service, but on logs in memory, which are lost when the script
    ends. Data sets of groups are fitted in this process. A second run with the same reports
    spends the budget again. Tables are of pyarrow, pandas from 2.2 on, polars, or any library with
    Arrow's PyCapsule interface.

    study: a study whose periods close by markers.
    reports: a long table, with columns `person`, `period` and one for each attribute, or a wide
        one, with columns `person` and one for each period.
    attribute: the attribute of the cells of a wide table.
    groups: where the study declares groups, a row for each, with its attributes.
    members: a row for each member, with the columns `person` and `group_key`, and those of the
        roles where the study declares roles.
    group_key: the column of `groups` and of `members` that names a group.
    places: where the study declares places, a row for each, with the columns `place` and those of
        its regions; or how many places have each size, with `size` and `count`.
    reading: how texts are read, with the keys of a file of `stream-dp send --reading`: for example
        `{"dates": "%d.%m.%Y", "decimal": ",", "nobody": ["Total"]}`.
    strict: whether no cell of the table may be one that does not count. By default a warning says
        how many do not, and why; all others count. Warnings have every notice of `stream-dp send`,
        and every rejection of the releaser, such as of people beyond the declared size.
    simulation_seed: for simulations only: the seed of repeatable noise, which protects nobody;
        every certificate says that it is simulated. By default noise is from the system's entropy.

    Raises UserError, before any noise is drawn also where no cell of the table would count, or a
    data set needs an extra that is not installed.

    >>> import pyarrow, stream_dp
    >>> study = stream_dp.parse_study({
    ...     "study": {"name": "homes", "unit": "person", "neighbours": "replace_in_place",
    ...               "rho": 2, "delta": "1/1000000", "population": {"size": 3},
    ...               "periods": {"first": "2026-01", "every": "month", "count": 2}},
    ...     "attributes": {"work": {"values": ["no", "yes"], "missing": "no"}},
    ...     "groups": {"unit": "household", "most": 2,
    ...                "attributes": {"region": {"values": ["north", "south"]}}},
    ...     "releases": [
    ...         {"name": "now", "kind": "window", "attribute": "work", "width": 1, "rho": 1},
    ...         {"name": "homes", "kind": "mwem", "attributes": ["work"], "rho": "1/2",
    ...          "every": 1}],
    ... })
    >>> groups = pyarrow.table({"group": [1, 2], "region": ["north", "south"]})
    >>> members = pyarrow.table({"person": ["a", "b", "c"], "group": [1, 1, 2]})
    >>> reports = pyarrow.table({"person": ["a", "b"], "2026-01": ["yes", "no"],
    ...                          "2026-02": ["yes", "yes"]})
    >>> public = stream_dp.run_study(study, reports, attribute="work", groups=groups,
    ...                              members=members, simulation_seed=1)
    >>> households, people = public.data_set("homes").tables
    >>> households.column_names, people.column_names
    (['group', 'region', 'size'], ['group', 'work'])
    """
    layout = stated_layout(reading, TableLayout(attribute=attribute))
    return run_table(
        study,
        arrow_table(reports, "reports"),
        layout,
        tell=lambda text: warnings.warn(f"run_study:{text}", stacklevel=5),
        groups=groups,
        members=members,
        group_key=group_key,
        places=places,
        strict=strict,
        simulation_seed=simulation_seed,
    )


def run_table(
    study: Study,
    reports: pa.Table,
    layout: TableLayout,
    *,
    tell: Callable[[str], object],
    groups: ArrowStream | None = None,
    members: ArrowStream | None = None,
    group_key: str = "group",
    places: ArrowStream | None = None,
    strict: bool = False,
    require: Callable[[Judgement], object] = lambda judgement: None,
    simulation_seed: int | None = None,
) -> PublicLog:
    """Runs a study, as `run_study` does.

    layout: how the columns of `reports` are read.
    tell: called with the text of each warning.
    require: called with the judgement of the table; it may refuse the table with a UserError.

    Every other argument is that of `run_study`.
    """
    if checked_study(study).periods.close != "marker":
        raise UserError("run_study: this study closes by its schedule; declare close = 'marker'")
    if study.periods.open:
        raise UserError("run_study: this study never ends; declare a number as periods.count")
    if study.gate is not None:
        raise UserError("run_study: [study.gate] waits for an operator; leave it out in a script")
    require_available(batch.kind for batch in study.batches or ())
    noise = noise_source(simulation_seed)
    log, public = MemoryLog(timed=(REPORTS, CLOCK)), MemoryLog()
    with TemporaryDirectory(prefix="stream-dp-") as folder:
        if study.groups is not None:
            commit_table(log, study, _roster(study, groups, members, group_key))
        elif groups is not None or members is not None:
            raise UserError("run_study: the study declares no groups; leave groups and members out")
        keyed_study = study
        if study.places is not None:
            table_of_places = _places(study, places)
            commit_table(log, study, table_of_places)
            keyed_study = table_of_places.of_study(study)
        elif places is not None:
            raise UserError("run_study: the study declares no places; leave places out")
        table = NamedTable("reports", reports)
        log.create({REPORTS: 1})
        read, rejected = tuple[str, ...](), set[Reason]()
        if study.attributes:
            read, rejected = _check_reports(
                table, keyed_study, layout, tell, require, strict=strict
            )
            for batch in encoded_reports(table, keyed_study, layout, quiet=True):
                log.append(Record(REPORTS, value, key.encode()) for key, value in batch)
        log.append([close_marker(study.periods.count, 0)])
        snapshots = Snapshots("snapshots", Path(folder))
        context = Context.of(study)
        weights = os.environ.get("STREAM_DP_WEIGHTS", "true") != "false"
        releaser = Releaser(
            plan_study(study), log, public, snapshots, context, source=noise, weights=weights
        )
        if not releaser.run(until_idle=True):
            fit_data_sets(study, log, snapshots, noise)
            releaser.run(until_idle=True)
        if study.attributes:
            _tell_of_rejections(log, keyed_study, rejected, tell)
    result = PublicLog(public)
    result.reading = read
    return result


def _check_reports(
    table: NamedTable,
    study: Study,
    layout: TableLayout,
    tell: Callable[[str], object],
    require: Callable[[Judgement], object],
    *,
    strict: bool,
) -> tuple[tuple[str, ...], set[Reason]]:
    """Warns of cells of a table that would not count, and of what `send` has notices of.

    Messages name arguments of a call in Python in place of options of `send`.

    Returns how the columns are read, in lines, and the reasons that the warning has. Raises
    UserError where no cell would count, or with `strict` where one would not.
    """
    try:
        judged = judge_tables(
            study,
            [table],
            layout,
            known=KnownReports(),
            strict=strict,
            empty=True,
            done="used",
        )
        judgement = judged.require_all()[table]
    except UserError as error:
        raise UserError(map(in_python, error.lines)) from None
    require(judgement)
    lines = fault_table("reports", judgement, "the others count") if judgement.faulty else []
    lines += table_notices("reports", judgement, study)
    if lines:
        tell("\n".join(["", *map(in_python, lines)]))
    reading = () if judgement.reading is None else tuple(reading_lines(judgement.reading))
    return reading, {reason for _, reason in judgement.faults}


def _tell_of_rejections(
    log: Log, study: Study, told: set[Reason], tell: Callable[[str], object]
) -> None:
    """Warns of cells rejected by the releaser for reasons outside `told`."""
    rejections, _ = read_rejections(log, Placing(study, None))
    lines = rejections_text({r: cells for r, cells in rejections.items() if r not in told})
    if lines:
        tell("\n".join([" rejected:", *lines]))


def _roster(
    study: Study, groups: ArrowStream | None, members: ArrowStream | None, key: str
) -> Roster:
    """The table of groups and their members. Raises UserError."""
    if groups is None or members is None:
        raise UserError("run_study: the study declares groups; give the tables groups and members")
    tables = RosterTables(
        groups=NamedTable("groups", arrow_table(groups, "groups")),
        members=NamedTable("members", arrow_table(members, "members")),
        key=key,
        member_key=key,
        person="person",
    )
    return read_roster(study, tables)


def _places(study: Study, places: ArrowStream | None) -> PlacesTable:
    """The table of places. Raises UserError."""
    if places is None:
        raise UserError("run_study: the study declares places; give the table places")
    return read_places(study, NamedTable("places", arrow_table(places, "places")))


def fit_data_sets(
    study: Study, log: Log, snapshots: Snapshots, noise: NoiseSource, caller: str = "run_study"
) -> None:
    """Fits the data sets of all open jobs. Raises UserError, with the caller, where one fails."""
    events: list[Event] = []
    worker = Worker(study, log, snapshots, source=noise, tell=events.append)
    worker.run(until_idle=True)
    if worker.failed:
        raise UserError(f"{caller}: {e.message}" for e in events if e.name == "job-failed")
