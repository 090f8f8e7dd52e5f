"""Reports of every kind, sound and broken, for property tests of whatever reads them."""

import json

from hypothesis import strategies as st

from kit.studies import attribute, cumulative, small_study, study_toml, window
from stream_dp.log.log import Stored

KEY = bytes(range(32))
PERIODS = ("2001", "2002", "2003", "2004")

STUDY_FILE = study_toml(
    name="fuzz",
    periods={"first": 2001, "every": "year", "count": 2},
    size=5,
    attributes={"a": attribute([0, 1], missing=0), "b": attribute(["x", "y"], missing="absent")},
    releases=[window("w", "a", width=1, rho=1)],
)


def make_study(size=None, *, closed=False):
    """Three attributes with the three missing rules; a window and a total of each."""
    share = {} if size else {"size_share": "1/10"}
    return small_study(
        name="fuzz",
        neighbours="replace_one" if size else "add_remove",
        rho=6,
        periods={"first": "2001", "every": "year", "count": len(PERIODS)},
        size=size,
        closed=closed,
        attributes={
            "a": attribute([0, 1, 2], missing=0),
            "b": attribute(["x", "y"], missing="absent"),
            "c": attribute([0, 1], missing={"carry": True, "first": 1}),
        },
        releases=[
            window("wa", "a", width=2, rho=1),
            window("wb", "b", width=3, rho=1),
            window("wc", "c", width=1, rho=1),
            cumulative("tb", "b", ["y"], rho=1, **share),
            cumulative("tc", "c", [0], rho=1, **share),
        ],
    )


OPEN, BOUNDED, CLOSED = make_study(), make_study(4), make_study(closed=True)


def stored(value, offset=0, partition=0):
    return Stored(partition=partition, offset=offset, time=0, key=None, value=value, headers=())


def rows(cells):
    """Cells as tuples in a fixed order, to compare."""
    return sorted(zip(*(column.tolist() for column in cells.columns()), strict=True))


# What may arrive.

plain_values = st.sampled_from([0, 1, 2, "0", "1", "2", "x", "y", "absent", None])
wild = st.one_of(
    st.integers(),
    st.sampled_from([2**63 - 1, 2**63, 2**64, -(2**63), 10**40, True, False, 0.0, 1.0, 1.5, 1e300]),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
any_value = plain_values | wild
people = st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6", 7, "7"])
periods = st.sampled_from([*PERIODS, 2001, 2002, "2000", "2005", 2005, "", "2001 ", None, 2001.0])
names = st.sampled_from(["a", "b", "c"])
reports = st.fixed_dictionaries(
    {
        "person": people | wild | st.just("") | st.just("n" * 257),
        "period": st.sampled_from(PERIODS) | periods | wild,
        "values": st.dictionaries(
            names | st.sampled_from(["d", "", "A"]), plain_values | any_value, max_size=4
        ),
    }
)
broken = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"",
            b"null",
            b"[]",
            b"{}",
            b"1",
            b'"x"',
            b"NaN",
            b'{"person": "p1", "period": "2001", "values": {"a": NaN}}',
            b'{"person": "p1", "period": "2001", "values": {"a": 1}',
            b'{"person": "p1", "period": "2001", "values": {"a": 1}} x',
            b'{"person": "p1", "period": "2001", "values": []}',
            b'{"person": "p1", "period": "2001", "values": {}}',
            b'{"person": "p1", "period": "2001", "values": null}',
            b'{"person": "p1", "period": "2001"}',
            b'{"period": "2001", "values": {"a": 1}}',
            b'{"person": {}, "period": [], "values": {"a": 1}}',
            b'{"person": "\\ud800", "period": "2001", "values": {"a": 1}}',
            b'{"person": "\xed\xa0\x80", "period": "2001", "values": {"a": 1}}',
            b'{"person": "p1", "period": "2001", "values": {"\\udc00": 1}}',
            b"\xef\xbb\xbf{}",
            b"[" * 100_000,
            b'{"person": "p1", "period": "2001", "values": {"a": ' + b"[" * 50_000,
            b'{"person":' * 20_000,
        ]
    ),
)
json_bytes = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=True) | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["person", "period", "values", "a"]), inner)
    ),
    max_leaves=6,
).map(lambda value: json.dumps(value).encode())
raw = st.one_of(broken, json_bytes, reports.map(lambda r: json.dumps(r).encode()))


def report_bytes(person, period="2001", **values):
    return json.dumps({"person": person, "period": period, "values": values}).encode()


def check_balance(accounting):
    assert accounting.received == (
        accounting.accepted
        + accounting.superseded
        + sum(accounting.rejected.values())
        + accounting.pending
    )
    assert min(accounting.accepted, accounting.superseded, accounting.pending) >= 0
