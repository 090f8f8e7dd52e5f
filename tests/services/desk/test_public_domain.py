"""Tables that values are taken from: their hash is published; the protected one is refused."""

import hashlib

import pyarrow as pa
import pytest

import stream_dp
from stream_dp.services.desk.declared_columns import content_hash

TABLE = pa.table(
    {
        "id": ["p1", "p1", "p2", "p2", "p3"],
        "month": ["2026-01", "2026-02", "2026-01", "2026-02", "2026-01"],
        "illness": ["none", "none", "none", "RARE", "none"],
        "ward": [1, 2, 1, 2, 3],
    }
)
PUBLIC = pa.table({"illness": ["none", "COMMON"], "ward": [1, 2]})


def published(domain_from, table=TABLE):
    return stream_dp.window(
        table,
        person="id",
        period="month",
        first="2026-01",
        count=2,
        width=1,
        domain_from=domain_from,
        missing="absent",
        rho=1,
        delta=1e-6,
        neighbours="add_remove",
        simulation_seed=1,
    ).public


@pytest.mark.parametrize(
    "domain",
    [
        TABLE,
        TABLE.take([4, 2, 0, 1, 3]),
        TABLE.select(["ward", "illness"]),
        TABLE.select(["illness"]),
        TABLE.append_column("note", pa.array(range(5))),
        TABLE.set_column(3, "ward", TABLE["ward"].cast(pa.float64())),
        TABLE.set_column(2, "illness", TABLE["illness"].dictionary_encode()),
    ],
    ids=["itself", "shuffled", "answers", "column", "wider", "floats", "categories"],
)
def test_the_protected_table_is_no_public_domain(domain):
    with pytest.raises(stream_dp.UserError, match="domain_from: has the rows of the protected"):
        published(domain)


@pytest.mark.parametrize("domain", [TABLE.slice(1, 3), pa.concat_tables([TABLE, TABLE.slice(3)])])
def test_rows_of_the_same_people_are_no_public_domain(domain):
    with pytest.raises(stream_dp.UserError, match="domain_from: has rows of people"):
        published(domain)


def test_the_fit_refuses_its_own_table_before_anything_is_drawn():
    people = TABLE.select(["illness", "ward"])
    with pytest.raises(stream_dp.UserError, match="domain_from: has the rows of the protected"):
        stream_dp.fit(
            people,
            domain_from=people.take([3, 1, 0, 2, 4]),
            rho=1,
            delta=1e-6,
            neighbours="add_remove",
        )


def test_certificates_name_the_table_that_values_come_from():
    with pytest.warns(UserWarning, match="cells would not count"):
        public = published(PUBLIC)
    certificate = public.releases[-1].certificate
    assert certificate.domain == f"illness, ward: taken from the table {content_hash(PUBLIC)}"
    assert certificate.values == ("COMMON", "none", "absent") or certificate.attribute == "ward"
    public.verify()


def test_certificates_say_that_values_were_declared():
    with pytest.warns(UserWarning, match="cells would not count"):
        public = stream_dp.window(
            TABLE,
            person="id",
            period="month",
            first="2026-01",
            count=2,
            width=1,
            values={"illness": ["none", "COMMON"]},
            domain_from=PUBLIC.select(["ward"]),
            missing="absent",
            rho=1,
            delta=1e-6,
            neighbours="add_remove",
            simulation_seed=1,
        ).public
    source = content_hash(PUBLIC.select(["ward"]))
    for release in public.releases:
        assert (
            release.certificate.domain
            == f"ward: taken from the table {source}; all others: declared"
        )


def test_the_hash_is_of_the_content_alone():
    known = pa.table({"b": ["x", None], "a": [1, 2]})
    # The rows by a and b: `1:1` and `1:x`, `1:2` and an empty cell.
    text = b'["a", "b"]' + b"1:11:x" + b"1:2-"
    assert content_hash(known) == f"sha256:{hashlib.sha256(text).hexdigest()}"
    again = pa.table({"a": ["2", "1"], "b": pa.chunked_array([[None], ["x"]], pa.string())})
    assert content_hash(again) == content_hash(known)
    assert content_hash(again.slice(1)) != content_hash(known)
