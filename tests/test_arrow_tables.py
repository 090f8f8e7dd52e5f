"""Tables of other libraries where the package takes a table."""

import pyarrow as pa
import pytest

import stream_dp

REPORTS = {"person": ["a", "b"], "2026-01": ["yes", "no"]}
HOMES = {"home": [1, 2], "region": ["north", "south"]}
PEOPLE = {"home": [1, 1, 2], "work": ["yes", "no", "yes"]}
COUNTS = {"county": ["north", "south"], "size": [1, 5], "groups": [60, 10]}


class Exporter:
    """A table of a library that has nothing but the interface, and whose text is in views."""

    def __init__(self, columns):
        table = pa.table(columns)
        fields = [
            pa.field(f.name, pa.string_view() if pa.types.is_string(f.type) else f.type)
            for f in table.schema
        ]
        self._table = table.cast(pa.schema(fields))

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def of_pandas(columns):
    """A table of pandas whose rows were selected, so that its index has no name and gaps."""
    pandas = pytest.importorskip("pandas", "2.2")
    frame = pandas.DataFrame({name: [values[0], *values] for name, values in columns.items()})
    return frame[frame.index > 0]


def of_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


LIBRARIES = pytest.mark.parametrize("of", [pa.table, Exporter, of_pandas, of_polars])


def study():
    return stream_dp.parse_study(
        {
            "study": {
                "name": "work",
                "unit": "person",
                "neighbours": "replace_one",
                "rho": 1,
                "delta": "1/1000000",
                "population": {"size": 2},
                "periods": {"first": "2026-01", "every": "month", "count": 1},
            },
            "attributes": {"work": {"values": ["no", "yes"], "missing": "no"}},
            "releases": [
                {"name": "now", "kind": "window", "attribute": "work", "width": 1, "rho": 1}
            ],
        }
    )


def run(reports):
    return stream_dp.run_study(study(), reports, attribute="work", simulation_seed=1)


def fit(homes, people):
    return stream_dp.fit_tables(
        homes,
        people,
        key="home",
        group_values={"region": ["north", "south"]},
        person_values={"work": ["yes", "no"]},
        most=2,
        rho="1/10",
        kind="independent",
        simulation_seed=1,
    )


def sizes(counts):
    return stream_dp.fit_sizes(
        counts,
        regions=["county"],
        neighbours="add_remove",
        largest=9,
        rho=1,
        simulation_seed=1,
    )


@LIBRARIES
def test_results_are_those_of_the_table_of_pyarrow(of):
    assert run(of(REPORTS)).panel("now").table() == run(pa.table(REPORTS)).panel("now").table()
    expected = fit(pa.table(HOMES), pa.table(PEOPLE)).sample(seed=1)
    sample = fit(of(HOMES), of(PEOPLE)).sample(seed=1)
    assert [pa.table(table).to_pydict() for table in sample] == [t.to_pydict() for t in expected]
    if of is not Exporter:
        assert [*map(type, sample)] == [type(of(HOMES))] * 2
    assert sizes(of(COUNTS)).sizes == sizes(pa.table(COUNTS)).sizes


@pytest.mark.parametrize("wrong", [REPORTS, "reports.csv", None, pa.chunked_array([[1, 2]])])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (run, "reports"),
        (lambda wrong: fit(wrong, pa.table(PEOPLE)), "groups"),
        (lambda wrong: fit(pa.table(HOMES), wrong), "people"),
        (sizes, "counts"),
    ],
)
def test_what_is_no_table_is_one_line(call, name, wrong):
    with pytest.raises(stream_dp.UserError, match=f"^{name}: [^\n]+$"):
        call(wrong)
