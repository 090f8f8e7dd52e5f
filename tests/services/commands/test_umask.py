"""Every command under a umask that closes nothing: the modes of all files that it writes."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from kit.households import LABELS, TEXT, roster
from kit.monitors import monitor
from kit.movers import moves_toml, write_moves
from kit.studies import attribute, study_toml, window
from tqdm import tqdm

from stream_dp.services.commands.cli import COMMANDS, main
from stream_dp.services.desk import demo

PRIVATE, PUBLIC = {"file": 0o600, "folder": 0o700}, {"file": 0o644, "folder": 0o755}
SOURCE = "sqlite:homes-public.db"
# The calls of each command, in the order in which a study needs them.
CALLS: Sequence[tuple[str, str]] = (
    ("demo", "--out kept/demo"),
    ("init", "reports.csv --out shown/asked.toml"),
    ("new", "shown/new.toml"),
    ("check", "homes.toml"),
    ("audit", "homes.toml pairs --runs 50 --statement shown/statement.json"),
    ("register", "begin shown/register.jsonl --population here --unit person"
     " --neighbours replace_in_place --rho 2"),
    ("register", "add shown/register.jsonl homes.toml"),
    ("plan", "homes.toml --picture shown/plan.svg"),
    ("schema", "homes.toml --out shown/schemas"),
    ("topics", "homes.toml"),
    ("send", "homes.toml reports.csv"),
    (
        "rehearse",
        "homes.toml reports.csv --groups groups.csv --members members.csv --out kept/rehearsed",
    ),
    ("groups", "homes.toml groups.csv members.csv"),
    ("places", "moves.toml places.csv"),
    ("close", "homes.toml 2021-02 --yes"),
    ("run", "homes.toml --until-idle"),
    ("aggregate", "homes.toml --until-idle"),
    ("run", "homes.toml --until-idle"),
    ("aggregate", "homes.toml --until-idle"),
    ("run", "homes.toml --until-idle"),
    ("worker", "homes.toml --until-idle"),
    ("run", "homes.toml --until-idle"),
    ("status", "homes.toml"),
    ("backup", "homes.toml kept/backup"),
    ("restore", "kept/restored/homes.toml kept/backup"),
    ("jobs", "homes.toml"),
    ("rejected", "homes.toml"),
    ("releases", SOURCE),
    ("export", f"{SOURCE} pairs shown/panel.csv"),
    ("export", f"{SOURCE} pairs shown/panel"),
    ("estimate", f"{SOURCE} pairs"),
    ("regress", f"{SOURCE} households 'work ~ income'"),
    ("estimates", f"{SOURCE} shown/estimates.csv"),
    ("page", f"{SOURCE} shown/page.html"),
    ("monitor", SOURCE),
    ("verify", "homes.toml --textfile shown/homes.prom"),
    ("evaluate", "panel.toml reports.csv --repetitions 2 --out kept/evaluated/new"),
)  # fmt: skip
ANSWERS = "columns = work\n2021-01, 2\n100\ncomplete = no\n0,1\n\n"

pytest.importorskip("fastapi")
pytest.importorskip("cryptography")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_every_command_is_called() -> None:
    assert {name for name, _ in CALLS} == set(COMMANDS)


@pytest.mark.usefixtures("open_umask", "handlers")
def test_no_umask_opens_a_confidential_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place, temporary = folder / "place", folder / "temporary"
    _prepare(place)
    temporary.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    given = set(folder.rglob("*"))
    monkeypatch.setattr(demo, "tqdm", lambda months, **_: tqdm(months[:1], disable=True))
    monkeypatch.setattr(demo, "page", lambda public, months: "a page")
    for name, words in CALLS:
        if name == "restore":
            shutil.copy("homes-public.db", "kept/restored")
        if name == "monitor":
            with monitor(*words.split(), before=["env"]) as served:
                assert served.get("/")[0] == 200
        else:
            monkeypatch.setattr("sys.stdin", io.StringIO(ANSWERS))
            # No table of this study has measured two columns together.
            expected = 2 if name == "regress" else 0
            assert main([name, *shlex.split(words)]) == expected, (name, capfd.readouterr())
        _check_modes(place, temporary, given, name)
    written = {str(path.relative_to(place)) for path in place.rglob("*")}
    assert {"shown/page.html", "kept/evaluated/new/evaluation.txt", "homes.db"} <= written, written


def _prepare(place: Path) -> None:
    """The tables and files that a study of households and one of places are given."""
    place.mkdir()
    for name in ("shown", "kept", "kept/restored", "kept/evaluated"):
        (place / name).mkdir(mode=0o755)
    (place / "homes.toml").write_text(
        f'{TEXT}worker = false\nengine = "processes"\nparts = 2\nprocesses = 1\n'
        '[run.signing]\nfile = "key.pem"\n'
    )
    work = {"work": attribute([0, 1], missing=0)}
    panel = study_toml(attributes=work, releases=[window("pairs", "work", width=2, rho=1)])
    (place / "panel.toml").write_text(panel)
    (place / "key.pem").write_text(_pem())
    (place / "key.pem").chmod(0o600)
    write_moves(place)
    (place / "moves.toml").write_text(moves_toml())
    known = roster()
    regions = known.attributes["region"]
    groups = pa.table({"group": [f"g{i}" for i in range(len(regions))], "region": regions})
    members = {"group": [f"g{i}" for i in known.group_of], "person": known.persons}
    pa.csv.write_csv(groups, place / "groups.csv")
    pa.csv.write_csv(pa.table(members), place / "members.csv")
    cells = [(p, label, i % 2) for label in LABELS for i, p in enumerate(known.persons)]
    rows = [f"{p},{label},{'low' if one else 'high'},{one}" for p, label, one in cells]
    (place / "reports.csv").write_text("\n".join(["person,period,income,work", *rows]))


def _pem() -> str:
    """An Ed25519 key in PKCS 8 (RFC 8410)."""
    der = bytes.fromhex("302e020100300506032b657004220420") + bytes(range(32))
    return f"-----BEGIN PRIVATE KEY-----\n{b64encode(der).decode()}\n-----END PRIVATE KEY-----\n"


def _check_modes(place: Path, temporary: Path, given: set[Path], command: str) -> None:
    """Public are all files under `shown`, the public logs, and the study and the page of a demo."""
    shown = re.compile(r"-public\.db(-journal)?$|^demo$|^index\.html$|^poverty\.toml$")
    for path in [*place.rglob("*"), *temporary.rglob("*")]:
        if path in given or path.name == "server.seconds":  # of the tests' own fork server
            continue
        parts = path.relative_to(place if place in path.parents else temporary).parts
        is_public = parts[0] == "shown" or shown.search(path.name) is not None
        allowed = (PUBLIC if is_public else PRIVATE)["folder" if path.is_dir() else "file"]
        mode = path.stat().st_mode & 0o777
        assert mode == allowed, f"{command}: {path} has mode {mode:04o}"
