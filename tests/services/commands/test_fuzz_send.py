"""Any table through `send`: it is sent, or refused in words."""

import csv
import io
import uuid

from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import KEY, STUDY_FILE, check_balance
from kit.examples import SHARED

from stream_dp.log.sqlite import SqliteLog
from stream_dp.population.cells import Cells
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.services.commands import cli
from stream_dp.study.topics import REPORTS
from stream_dp.studyfile import load_study

cell_text = st.sampled_from(["0", "1", "x", "y", "", "2001", "2002", "p1", "p2"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=5
)
headers = st.permutations(["person", "period", "a", "b", "c"]).map(lambda names: names[:5])


def as_csv(table):
    file = io.StringIO()
    csv.writer(file).writerows(table)
    return file.getvalue().encode()


tables = st.builds(
    lambda head, body: as_csv([head, *body]),
    headers,
    st.lists(st.lists(cell_text, min_size=5, max_size=5), max_size=6),
)
any_csv = st.one_of(
    tables,
    tables.flatmap(lambda t: st.integers(0, len(t)).map(lambda n: t[:n])),
    st.text(max_size=60).map(lambda s: s.encode("utf-8", "surrogatepass")),
    st.text("person,period\n\r\"',;01 ab", max_size=80).map(
        lambda s: b"person,period,a\n" + s.encode()
    ),
    st.binary(max_size=60),
    st.binary(max_size=60).map(lambda b: b"person,period,a,b\n" + b),
)


@settings(
    max_examples=120,
    suppress_health_check=SHARED,
)
@given(any_csv, st.booleans())
def test_any_table_is_sent_or_refused_in_words(tmp_path, capsys, content, wide):
    folder = tmp_path / uuid.uuid4().hex
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY_FILE)
    (folder / "table.csv").write_bytes(content)
    layout = ["--attribute", "a", "--columns", "a=2001,b=2002"] if wide else []
    code = cli.main(
        ["send", str(folder / "study.toml"), str(folder / "table.csv"), "--quiet", *layout]
    )
    errors = capsys.readouterr().err
    assert code in (0, 2)
    assert (code == 2) == errors.startswith("stream-dp: ")
    assert "Traceback" not in errors
    if not (folder / "fuzz.db").exists():
        return
    log = SqliteLog(folder / "fuzz.db", readonly=True)
    records = log.read(REPORTS, {0: 0}, 10_000, 0).records
    log.close()
    study, _ = load_study(folder / "study.toml")
    population = Population(study)
    cells, rejected = Decoder(study, KEY).decode(records, 0)
    assert isinstance(cells, Cells)
    population.fold(cells, rejected)
    population.close()
    population.close()
    check_balance(population.accounting)
    assert population.accounting.pending == 0
    assert population.accounting.received >= len(records)
