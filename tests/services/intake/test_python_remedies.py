"""Messages of the reading name arguments of a call in Python, never options of `send`."""

import ast
import re
from pathlib import Path

import pyarrow as pa
import pytest
from kit.studies import MARKER, attribute, small_study, window

import stream_dp
from stream_dp.services.intake.python_remedies import in_python

ROOT = Path(__file__).parents[3]
SOURCES = (
    *(ROOT / "stream_dp/population").rglob("*.py"),
    *(ROOT / "stream_dp/study").glob("*_texts.py"),
    ROOT / "stream_dp/study/date_formats.py",
    ROOT / "services/intake/table_judging.py",
)
OPTION = re.compile("--[a-z]")
# What a call has no argument for, because it takes a table in memory with columns of these names.
OF_FILES = {
    *("--encoding", "--event", "--group", "--header-row", "--member", "--period", "--person"),
    *("--reading", "--row-names", "--separator", "--sheet", "--show-texts"),
}


def messages(path: Path) -> set[str]:
    """The texts of a source that name an option, with X for what is filled in."""
    tree = ast.parse(path.read_text())
    parts = {id(p) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for p in n.values}
    parts |= {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}  # docstrings
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = [v.value if isinstance(v, ast.Constant) else "X" for v in node.values]
            found.add("".join(map(str, values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add("" if id(node) in parts else node.value)
    return {text for text in found if OPTION.search(text)}


def test_every_message_that_names_an_option():
    texts = {text for path in SOURCES for text in messages(path)}
    assert len(texts) > 50
    left_out = set[str]()
    for text in texts:
        assert not OPTION.search(in_python(text)), text
        for option in re.findall("--[a-z-]+", text):
            if "reading" not in in_python(f"a: {option}=1") and option not in {"--round"}:
                left_out.add(option)
    assert left_out - {"--attribute", "--strict"} == OF_FILES


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("work: --map 'work:a=0,b='", "work: reading={'values': {'work': {'a': '0', 'b': ''}}}"),
        ("say so: --no-id=NA,0; or not", "say so: reading={'nobody': ['NA', '0']}; or not"),
        ("--dates 'Q%q' --language de", "reading={'dates': 'Q%q', 'languages': ['de']}"),
        ("--decimal , --round", "reading={'decimal': ',', 'round': True}"),
        ("--thousands space; x", "reading={'thousands': ' '}; x"),
        ('--thousands "\'"', "reading={'thousands': \"'\"}"),
        ("ids: --id-width 4 puts zeros", "ids: reading={'id_width': 4} puts zeros"),
        ("--columns NAME=PERIOD,...", "reading={'columns': {'NAME': 'PERIOD', ...}}"),
        ("--dates: 'iso' names none", "reading['dates']: 'iso' names none"),
        ("--labels, --codes: no x", "reading['labels'], reading['codes']: no x"),
        ("of nobody, by --no-id or [ids]", "of nobody, by reading['nobody'] or [ids]"),
        ("no period; name it with --period; else --attribute a", "no period; else attribute='a'"),
        ("t: row 2 has these names: --header-row 2", "t: row 2 has these names"),
        ("rows; without --strict all counts", "rows; without strict all counts"),
    ],
)
def test_a_line(line, told):
    assert in_python(line) == told


def test_the_remedy_of_a_call_is_an_argument_of_that_call():
    study = small_study(
        attributes={"work": attribute(["no", "yes"], missing="no")},
        releases=[window("w", "work", width=1, rho=1)],
        periods={"first": "2026-01", "every": "month", "count": 2, **MARKER},
        **{"size": 3, "rho": 1, "neighbours": "replace_in_place"},
    )
    table = pa.table(
        {"person": ["a", "b", "NA"], "period": ["13.01.2026", "14.02.2026", "01.02.2026"]}
        | {"work": ["yes", "no", "no"]}
    )
    with pytest.raises(stream_dp.UserError) as refused:
        stream_dp.run_study(study, table, simulation_seed=1)
    assert "reading={'dates': '%d.%m.%Y'}" in str(refused.value)
    assert not OPTION.search(str(refused.value))
    reading = {"dates": "%d.%m.%Y"}
    with pytest.warns(UserWarning, match="nobody") as warned:
        stream_dp.run_study(study, table, reading=reading, simulation_seed=1)
    (told,) = (str(w.message) for w in warned if "nobody" in str(w.message))
    assert "reading={'nobody': ['NA']}" in told
    assert not OPTION.search(told)
    reading |= {"nobody": ["NA"]}
    with pytest.warns(UserWarning, match="1 rows of nobody, by reading\\['nobody'\\]"):
        stream_dp.run_study(study, table, reading=reading, simulation_seed=1)


def test_labels_of_a_window():
    table = pa.table({"2026-01": ["a", "b"], "2026-02": ["b", "b"]})
    declared = {"width": 1, "rho": 1, "delta": 1e-6, "neighbours": "replace_one"}
    with pytest.raises(stream_dp.UserError) as refused:
        stream_dp.window(table, values=[1, 2], missing="absent", **declared, simulation_seed=1)
    assert "reading={'values': {'value': {'TEXT': '1', 'TEXT': '2'}}}" in str(refused.value)
    assert not OPTION.search(str(refused.value))
