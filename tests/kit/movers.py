"""A study of people who move between places, and its tables."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from kit.run_results import kept
from kit.studies import MARKER, study_toml
from stream_dp.services.commands.cli import main

LABELS = ("2021-01", "2021-02", "2021-03")
PEOPLE, PLACES, LARGEST = 700, 400, 8
DUE = (LABELS[1], LABELS[2])
PLACE = {"place": True, "missing": {"carry": True, "first": "absent"}}
NOWHERE = "absent"


def moves_toml(relation: str = "add_remove", **changes: object) -> str:
    release = {
        **{"name": "blocks", "kind": "sizes", "attribute": "home", "largest": LARGEST},
        **{"at": list(DUE), "rho": "3/2"},
    }
    release |= changes.pop("release", {})  # type: ignore[call-overload]
    return study_toml(
        **{
            "name": "moves",
            "unit": "person",
            "neighbours": relation,
            "rho": 3,
            "periods": {"first": LABELS[0], "every": "month", "count": 3, **MARKER},
            "size": None if relation == "add_remove" else 800,
            "attributes": {"home": PLACE},
            "places": {"unit": "block", "regions": ["county", "tract"]},
            "releases": [{k: v for k, v in release.items() if v is not None}],
            "run": {"log": "sqlite:moves.db", "public": "sqlite:moves-public.db", "worker": False},
            **changes,
        }
    )


def region(place: int) -> tuple[str, str]:
    return f"c{place % 2}", f"t{place % 6}"


def homes() -> list[dict[int, int | None]]:
    """What people say in each month: everybody once, then those who move, or leave for good."""
    rng = np.random.default_rng(3)
    first = {p: int(h) for p, h in enumerate(rng.integers(0, PLACES - 10, PEOPLE))}
    moved: list[dict[int, int | None]] = [dict(first)]
    for _ in LABELS[1:]:
        movers = rng.choice(PEOPLE, 100, replace=False)
        places = rng.integers(0, PLACES - 10, 100)
        moved.append(
            {
                int(p): int(h) if i % 5 else None
                for i, (p, h) in enumerate(zip(movers, places, strict=True))
            }
        )
    return moved


def write_moves(folder: Path) -> list[np.ndarray]:
    """The tables of places and reports; returns the true sizes by place after each month."""
    rows = ["place,county,tract", *(f"b{i:03},{','.join(region(i))}" for i in range(PLACES))]
    (folder / "places.csv").write_text("\n".join(rows))
    at: dict[int, int | None] = {}
    lines, sizes = ["person,period,home"], []
    for label, said in zip(LABELS, homes(), strict=True):
        at |= said
        for person, home in said.items():
            lines.append(f"p{person},{label},{NOWHERE if home is None else f'b{home:03}'}")
        there = [home for home in at.values() if home is not None]
        sizes.append(np.bincount(there, minlength=PLACES))
    (folder / "reports.csv").write_text("\n".join(lines))
    return sizes


def moves_public(folder: Path) -> str:
    """The address of the study's public log, after all its periods. folder: for its file."""
    path = folder / "moves-public.db"
    path.write_bytes(kept("public log of moves", _run_to_its_end))
    return f"sqlite:{path}"


def _run_to_its_end() -> bytes:
    """The public log's file."""
    with TemporaryDirectory() as name, redirect_stdout(io.StringIO()):
        return _moves_run(Path(name))


def _moves_run(folder: Path) -> bytes:
    write_moves(folder)
    file = folder / "moves.toml"
    file.write_text(moves_toml())
    for words in (
        ("places", file, folder / "places.csv"),
        ("send", file, folder / "reports.csv"),
        ("close", file, LABELS[-1], "--yes"),
        ("run", file, "--until-idle"),
        ("worker", file, "--until-idle"),
        ("run", file, "--until-idle"),
    ):
        assert main([*map(str, words), "--json"]) == 0
    return (folder / "moves-public.db").read_bytes()
