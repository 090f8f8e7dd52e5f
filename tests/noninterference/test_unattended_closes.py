"""`close` without a terminal, as from a timer, has the same effect and words for all counts.

A month with no answers, with few and with all of them closes alike, or the gate's noisy count
decides. Where the noisy answers coincide, exit codes, printed words and public bytes do.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from kit.panels import fix_secrets
from kit.studies import MARKER, MONTHS, attribute, study_toml, window
from noninterference.coupled import Coupled, Vector, recorded_with_gates, releasers_with

from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.commands.cli import main
from stream_dp.study.topics import RELEASES

PEOPLE, LEAST = 8, 4
MONTH = ("2021-01", "2021-02")
NOISY = {"held": LEAST - 1, "closed": LEAST}  # the gate's count of the second month


class Ends(NamedTuple):
    """The outcome of a study. said: by command, the exit code and the words. public: records."""

    said: list[tuple[int, str, str]]
    public: list[tuple[Any, ...]]


def declared(*, gate: bool, rejects: float | None) -> str:
    text = study_toml(
        name="small",
        size=PEOPLE,
        rho=1.5,
        periods={**MONTHS, **MARKER, "count": len(MONTH)},
        attributes={"work": attribute(["no", "yes"], missing="no")},
        releases=[window("now", "work", width=1, rho=1)],
        run={"log": "sqlite:small.db", "public": "sqlite:small-public.db"}
        | ({} if rejects is None else {"rejects": rejects}),
    )
    table = f"[study.gate]\nrho = 0.5\nleast = {LEAST / PEOPLE}\n\n" if gate else ""
    return text.replace("[study.population]", f"{table}[study.population]")


def ends(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    *,
    answers: int,
    words: Sequence[str] = (),
    source: Coupled | None = None,
) -> Ends:
    """Closes two months by a timer. answers: how many people answer in the second one."""
    folder.mkdir()
    study, table = folder / "small.toml", folder / "reports.csv"
    study.write_text(text)
    rows = [f"p{i},{MONTH[0]},yes" for i in range(PEOPLE)]
    rows += [f"p{i},{MONTH[1]},{'yes' if i < answers else 'maybe'}" for i in range(PEOPLE)]
    table.write_text("\n".join(["person,period,work", *rows, ""]))
    said = []
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        releasers_with(patch, source or Coupled())
        assert main(["send", str(study), str(table)]) == 0
        for month in MONTH:
            for command in (["close", str(study), month, *words], ["run", str(study)]):
                capsys.readouterr()
                code = main([*command, *(["--until-idle"] if command[0] == "run" else [])])
                said.append((code, *capsys.readouterr()))
    with closing(SqliteLog(folder / "small-public.db", public=True, readonly=True)) as log:
        records = log.read(RELEASES, {0: 0}, 10_000, 0).records
    shutil.rmtree(folder)
    return Ends(said, [(r.key, r.value, r.headers) for r in records])


@pytest.mark.parametrize(
    ("noisy", "rejects", "words"),
    [
        (None, None, []),
        (None, 0.0, []),
        (None, 0.0, ["--yes"]),
        (None, None, ["--json"]),
        ("held", 0.0, []),
        ("closed", None, []),
    ],
)
def test_a_timer_closes_every_month_alike(
    noisy: str | None,
    rejects: float | None,
    words: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = declared(gate=noisy is not None, rejects=rejects)
    noisy_answers, seen = list[Vector](), list[Ends]()
    for answers in (0, LEAST - 1, LEAST, PEOPLE):
        with recorded_with_gates() as (true, gates):
            ends(folder / "study", capsys, text, answers=answers)
        if not seen:
            noisy_answers = [m + 2 for m in true]
        if noisy is not None:
            noisy_answers[gates[0]] = np.array([PEOPLE])
            noisy_answers[gates[1]] = np.array([NOISY[noisy]])
        drawn = gates[1] + 1 if noisy == "held" else len(true)
        source = Coupled(true[:drawn], noisy_answers[:drawn])
        seen.append(
            ends(folder / "study", capsys, text, answers=answers, words=words, source=source)
        )
    assert all(one == seen[0] for one in seen)
    assert [code for code, *_ in seen[0].said] == [0] * 4
    assert ("closed 2021-02" in seen[0].said[-1][1]) == (noisy != "held")
