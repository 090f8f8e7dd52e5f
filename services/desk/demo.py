"""The demo: a simulated study of twelve months, run by the real services.

The reports are simulated; the noise comes from the operating system. Every month is a complete
cycle: reports are sent, a marker closes the month, and a releaser starts, decides, publishes, ends.
"""

from __future__ import annotations

import argparse
import shlex
from contextlib import closing
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from tqdm import tqdm

from stream_dp.client import PublicLog
from stream_dp.errors import UserError, write_error
from stream_dp.log.mark import make_folder
from stream_dp.panel import Symbols
from stream_dp.population.tables import TableLayout
from stream_dp.study import Run

from ..intake.markers import send_close_markers
from ..intake.sending import send_table
from ..process.output import Output
from ..releaser.setup import releaser_of
from ..storage.atomic_files import atomic_file, write_text_file
from ..storage.deployment import Deployment
from .demo_page import page

SEED = 2021  # of the simulated households, never of the noise
PERSON, ATTRIBUTE = "household", "poverty"
_QUESTION = "at-least 1 of last 3 poverty=1"
_RUN = Run(log="sqlite:poverty.db", public="sqlite:poverty-public.db")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("stream-dp-demo"), metavar="DIR")


def run(options: argparse.Namespace) -> Output:
    from stream_dp.services.evaluate import simulate

    out: Path = options.out
    deployment, study_file = _begin(out)
    months, table = simulate.poverty(SEED), out / "simulated-reports.csv"
    _write(months, table, deployment.study.periods.labels)
    _release(deployment, table)
    with closing(deployment.public(readonly=True)) as log:
        public = PublicLog(log)
    write_text_file(out / "index.html", page(public, months), public=True)
    files = {
        "study": study_file,
        "reports": table,
        "log": out / "poverty.db",
        "public": out / "poverty-public.db",
        "page": out / "index.html",
    }
    data: dict[str, object] = {name: str(path) for name, path in files.items()}
    return Output({"out": str(out), **data, "head": public.head}, summary(public, out))


def _begin(out: Path) -> tuple[Deployment, Path]:
    """Creates a new folder with the study file. Never overwrites a file. Raises UserError."""
    path = out / "poverty.toml"
    text = resources.files("stream_dp.services.desk").joinpath("demo.toml").read_text("utf-8")
    try:
        make_folder(out, public=True)
        if any(out.iterdir()):
            raise UserError(f"{out}: is there and not empty; name a new folder with --out")
        write_text_file(path, text, public=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{out}: is not a folder; name a new one with --out") from None
    except OSError as error:
        raise write_error(out, error) from None
    deployment = Deployment.load(path)
    if deployment.run != _RUN:
        path.unlink()
        raise UserError(
            "demo: an environment variable STREAM_DP_* names another log or place, and simulated"
            " reports would go there; unset it first"
        )
    return deployment, path


def _write(months: Symbols, path: Path, labels: tuple[str, ...]) -> None:
    """Writes the simulated reports as a wide table: a row a household, a column a month."""
    names = np.char.add("H", np.char.zfill(np.arange(1, months.shape[0] + 1).astype(str), 5))
    columns = dict(zip(labels, months.T, strict=True))
    with atomic_file(path) as draft:
        pa.csv.write_csv(pa.table({PERSON: pa.array(names), **columns}), draft)


def _release(deployment: Deployment, table: Path) -> None:
    """Sends the reports of every month, closes the month and runs the releaser until idle."""
    labels = deployment.study.periods.labels
    with tqdm(labels, unit=" months", disable=None, leave=False) as bar:
        for number, label in enumerate(bar, 1):
            bar.set_description(label)
            # The other months' columns are renamed to no period, and so left out.
            other_columns = {name: "" for name in labels if name != label}
            layout = TableLayout(PERSON, attribute=ATTRIBUTE, columns=other_columns)
            send_table(deployment, table, layout, quiet=True)
            send_close_markers(deployment, number)
            releaser_of(deployment).run(until_idle=True)


def summary(public: PublicLog, out: Path) -> str:
    """Five lines about the finished demo, with commands to try next."""
    study, last = public.study, public.releases[-1].certificate
    source = shlex.quote(f"sqlite:{out / 'poverty-public.db'}")
    panel = shlex.quote(str(out / "panel.csv"))
    page_path = shlex.quote(str(out / "index.html"))
    return "\n".join(
        [
            f"released {study.periods.count} months of {study.size} SIMULATED households in {out}:"
            f" rho {float(last.rho_spent):g}, eps {float(last.epsilon_spent):.3f} at delta"
            f" {float(last.delta):g}".replace("e-0", "e-"),
            f"look:   open {page_path} in a browser",
            f"ask:    stream-dp estimate {source} quarters '{_QUESTION}'",
            f"check:  stream-dp verify {shlex.quote(str(out / 'poverty.toml'))}",
            f"keep:   stream-dp export {source} quarters {panel}",
        ]
    )
