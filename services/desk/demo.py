"""The demo: a simulated study of twelve months, run by the real services.

The reports are simulated; the noise comes from the operating system. Every month is a complete
cycle: reports are sent, a marker closes the month, and a releaser starts, decides, publishes, ends.

The page has the figures of `stream-dp page`, with the truth. Every estimate comes from the public
log through the analysts' client. The truth is counted here from the simulated months.
"""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from tqdm import tqdm

from stream_dp.client import PublicLog
from stream_dp.errors import UserError, write_error
from stream_dp.log.owned_files import make_folder
from stream_dp.panel import Symbols
from stream_dp.population.tables import TableLayout
from stream_dp.study import Run

from ..intake.markers import send_close_markers
from ..intake.sending import send_table
from ..monitor import record_rows
from ..monitor.answers_for_people import pointwise
from ..monitor.charts import Line, Look, Point, curves, extent
from ..monitor.default_questions import Question
from ..monitor.release_figures import SMALL, Figure, answers, lines_figure, look_of, numbers_of
from ..monitor.render import power, render, resource
from ..process.command_output import Output
from ..releaser.deployed_releaser import releaser_of
from ..storage.atomic_files import atomic_file, write_text_file
from ..storage.deployment import Deployment

QUARTERS, TOTALS = "quarters", "months-in-poverty"
STATISTICS = {
    "Poor in at least 1 month": "at-least 1 of last 3 poverty=1",
    "Poor in at least 2 months": "at-least 2 of last 3 poverty=1",
    "Poor in at least 2 months in a row": "consecutive 2 of last 3 poverty=1",
    "Poor in all 3 months": "at-least 3 of last 3 poverty=1",
}
THRESHOLDS = {
    1: "at least 1 month",
    3: "at least 3 months",
    6: "at least 6 months",
    9: "at least 9 months",
    12: "all 12 months",
}


def page(public: PublicLog, months: Symbols) -> str:
    """Renders the page's HTML. months: the simulated truth, (households, 12), 1 for poor."""
    shares, totals = quarter_shares(public, months), cumulative_counts(public, months)
    study, last = public.study, public.releases[-1]
    certificate, labels = last.certificate, study.periods.labels
    shown = [Line(f"Poor in {THRESHOLDS[b]}", line.points) for b, line in totals.items()]
    return render(
        "demo.html",
        style=resource("style.css"),
        title="A year of poverty, published month by month",
        size=f"{study.size:,}",
        unit=study.unit,
        reach_shares=f"{max(100 * p.reach for p in _points(shares)):.1f}",
        reach_totals=f"{math.ceil(max(p.reach for p in _points(shown)) / 10) * 10:,}",
        covered_shares=_covered(shares),
        covered_totals=_covered(shown),
        total=f"{float(certificate.rho_total):g}",
        guarantee=certificate.guarantee,
        epsilon=f"{float(certificate.epsilon_spent):.3f}",
        delta=power(certificate.delta),
        releases=str(len(public.releases)),
        invariants=certificate.invariants,
        version=certificate.code_version,
        study_hash=study.hash,
        head=public.head,
        facts=record_rows.facts(public),
        shares=_share_figures(shares),
        share_numbers=[numbers_of(line, look_of(public, shares, count=False)) for line in shares],
        totals=lines_figure(
            [line for b, line in totals.items() if b != 9],
            labels,
            Look("households", ends=True, panel=True),
            "Months in poverty",
        ),
        differences=_differences(shown, labels),
        total_numbers=[numbers_of(line, Look("households")) for line in shown],
        budget=record_rows.budget_charts(public),
        certificate=record_rows.certificate_rows(public, last),
        hashes=record_rows.HASHES,
    )


def quarter_shares(public: PublicLog, months: Symbols) -> list[Line]:
    """The share of households by quarter, a line per statistic.

    months: the simulated truth, (households, 12), 1 for poor.
    """
    labels = public.study.periods.labels
    points: dict[str, list[Point]] = {name: [] for name in STATISTICS}
    for index, end in enumerate(range(3, len(labels) + 1, 3)):
        a, b, c = (months[:, i].astype(bool) for i in range(end - 3, end))
        count = months[:, end - 3 : end].sum(axis=1)
        truths = (count >= 1, count >= 2, (a & b) | (b & c), count == 3)
        for (name, query), true in zip(STATISTICS.items(), truths, strict=True):
            answer = public.answer(QUARTERS, query, labels[end - 1])
            quarter = f"Q{end // 3} {labels[end - 1][:4]}"
            points[name].append(
                Point(index, quarter, answer, float(true.mean()), pointwise(answer))
            )
    return [Line(name, tuple(by_quarter)) for name, by_quarter in points.items()]


def cumulative_counts(public: PublicLog, months: Symbols) -> dict[int, Line]:
    """By threshold, the number of households at or above the threshold, month by month."""
    labels, so_far = public.study.periods.labels, months.cumsum(axis=1, dtype=np.int64)
    lines = {}
    for b, title in THRESHOLDS.items():
        truth = {label: float((so_far[:, t] >= b).sum()) for t, label in enumerate(labels)}
        line = answers(public, TOTALS, Question(title, f"total at-least {b}", count=True), truth)
        lines[b] = Line(title, tuple(p for p in line.points if p.position >= b - 1))
    return lines


def _share_figures(lines: Sequence[Line]) -> list[Figure]:
    look = Look("% of households", 100, values=True, panel=True)
    low, high = extent(lines, look)
    look = replace(look, limits=(math.floor(low) - 1.0, float(math.ceil(high))))
    quarters = [point.label for point in lines[0].points]
    return [Figure(line.title, "", (curves([line], quarters, look, SMALL),), ()) for line in lines]


def _differences(lines: Sequence[Line], labels: Sequence[str]) -> list[Figure]:
    """Figures of the answers' errors: the answers less the simulated truth."""
    shown = [line for line in lines if len(line.points) > 1]
    look = Look("households off the truth", as_errors=True, panel=True)
    limit = max(map(abs, extent(shown, look)))
    look = replace(look, limits=(-limit, limit))
    return [
        Figure(line.title, "", (curves([line], labels, look, (360, 214)),), ()) for line in shown
    ]


def _covered(lines: Sequence[Line]) -> str:
    covered = [point.covered for point in _points(lines)]
    return f"{sum(covered)} of {len(covered)}"


def _points(lines: Sequence[Line]) -> Iterator[Point]:
    return (point for line in lines for point in line.points)


SEED = 2021  # of the simulated households, never of the noise
PERSON, ATTRIBUTE = "household", "poverty"
_QUESTION = "at-least 1 of last 3 poverty=1"
_RUN = Run(log="sqlite:poverty.db", public="sqlite:poverty-public.db")


def run(options: argparse.Namespace) -> Output:
    from stream_dp.services.evaluate import simulated_panels

    out: Path = options.out
    deployment, study_file = _begin(out)
    months, table = simulated_panels.poverty(SEED), out / "simulated-reports.csv"
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
    if deployment.run.model_copy(update={"weights": _RUN.weights}) != _RUN:
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
