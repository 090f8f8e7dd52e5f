"""Declared columns, checked arrays, and tables in and out."""

import grouped
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.data.hierarchy_tables import from_tables, to_tables
from stream_dp.errors import UserError

AGE = Column("age", ("<18", "18..<65", ">=65", "?"), missing="?")
KEYS = {"key_group": "id", "key_person": "of"}
SMALL = Domain((Column("region", ("n", "s")),), (AGE, Column("sex", (1, 2))), 3)


def tables(people=None, groups=None):
    groups = groups or {"id": ["a", "b", "c"], "region": ["n", "s", "n"], "members": [2, 1, 1]}
    people = people or {
        "of": ["c", "a", "b", "a"],
        "age": ["<18", "18..<65", "18..<65", ">=65"],
        "sex": ["1", "2", "1", "2"],
    }
    return pa.table(groups), pa.table(people)


def test_members_are_put_with_their_groups():
    hierarchy = from_tables(SMALL, *tables(), **KEYS, size="members")
    assert (hierarchy.G, hierarchy.N) == (3, 4)
    assert hierarchy.groups.tolist() == [[0, 1], [1, 0], [0, 0]]
    assert hierarchy.group_of.tolist() == [0, 0, 1, 2]
    assert hierarchy.people.tolist() == [[1, 1], [2, 1], [1, 0], [0, 0]]
    assert hierarchy.starts.tolist() == [0, 2, 3, 4]
    groups, people = to_tables(hierarchy)
    assert groups.to_pydict() == {"group": [0, 1, 2], "region": ["n", "s", "n"], "size": [2, 1, 1]}
    assert people.to_pydict() == {
        "group": [0, 0, 1, 2],
        "age": ["18..<65", ">=65", "18..<65", "<18"],
        "sex": [2, 2, 1, 1],
    }


@pytest.mark.parametrize("domain", [grouped.ALIKE, grouped.RELATED], ids=["alike", "related"])
@settings(max_examples=30)
@given(data=st.data())
def test_tables_read_back_their_source(domain, data):
    hierarchy = data.draw(grouped.hierarchies(domain))
    again = from_tables(
        domain, *to_tables(hierarchy), key_group="group", key_person="group", size="size"
    )
    for name in ("groups", "people", "group_of"):
        assert np.array_equal(getattr(again, name), getattr(hierarchy, name))


def test_an_empty_cell_is_the_missing_value_or_a_fault():
    ages = ["<18", "", None, "x", "?"]
    people = pa.table({"of": ["a"] * 5, "age": ages, "sex": ["1"] * 5})
    groups = pa.table({"id": ["a"], "region": ["n"]})
    domain = Domain(SMALL.group, SMALL.person, 20)
    for cells in (people, people.set_column(1, "age", people["age"].dictionary_encode())):
        with pytest.raises(UserError) as fault:
            from_tables(domain, groups, cells, **KEYS)
        assert fault.value.lines == (
            "people: 1 row with an undeclared or empty 'age', such as that of key a",
        )
        codes = from_tables(domain, groups, cells.filter([a != "x" for a in ages]), **KEYS)
        assert codes.people[:, 0].tolist() == [0, 3, 3, 3]


def test_numbers_and_text_are_the_same_value():
    for sex in (["1", "2"], [1, 2], [1.0, 2.0]):
        people = pa.table({"of": [7.0, 7.0], "age": ["?", "?"], "sex": sex})
        hierarchy = from_tables(SMALL, pa.table({"id": ["7"], "region": ["n"]}), people, **KEYS)
        assert hierarchy.people[:, 1].tolist() == [0, 1]


def test_every_fault_is_reported_and_no_value():
    groups = {
        "id": ["a", "b", "c", "d"],
        "region": ["n", "s", "secret", None],
        "members": ["4", "1", "1", "1"],
    }
    people = {
        "of": ["a", "a", "a", "a", "c", "x", "x"],
        "age": ["<18"] * 7,
        "sex": ["1", "2", "hidden", None, "1", "2", "2"],
    }
    with pytest.raises(UserError) as fault:
        from_tables(SMALL, *tables(people, groups), **KEYS, size="members")
    assert fault.value.lines == (
        "people: 2 rows of no group, such as x",
        "groups: 2 groups without members, such as that of key b",
        "groups: 1 group of more than 3 members, such as that of key a",
        "groups: 2 groups with another number of members than 'members' says,"
        " such as that of key b",
        "groups: 2 rows with an undeclared or empty 'region', such as that of key c",
        "people: 2 rows with an undeclared or empty 'sex', such as that of key a",
    )
    assert "secret" not in str(fault.value)
    assert "hidden" not in str(fault.value)


@pytest.mark.parametrize(
    ("groups", "people", "lines"),
    [
        (
            {"id": ["a", "a", None], "region": ["n"] * 3},
            {"of": ["a", ""], "age": [1, 2], "sex": [1, 2]},
            (
                "groups: 1 row without a key",
                "people: 1 row without a key",
                "groups: 1 key there more than once, such as a",
            ),
        ),
        (
            {"id": ["a"]},
            {"age": [1], "sex": [1]},
            (
                "groups: no column 'region'; there are id",
                "people: no column 'of'; there are age, sex",
            ),
        ),
        (
            {"id": ["a"], "region": [[1]]},
            {"of": ["a"], "age": [1], "sex": [1]},
            (
                "column 'region': holds neither text nor numbers, but list<item: int64>; write it"
                " as text",
            ),
        ),
    ],
)
def test_tables_that_cannot_be_tied_are_refused(groups, people, lines):
    with pytest.raises(UserError) as fault:
        from_tables(SMALL, pa.table(groups), pa.table(people), **KEYS)
    assert fault.value.lines == lines


@pytest.mark.parametrize(
    ("roles", "fault"),
    [
        (["spouse", "child"], "no head"),
        (["head", "head"], "more than one head"),
        (["head", "spouse", "spouse"], "more than one spouse"),
        (["head", "child", "child", "child", "child"], "more than 3 children"),
    ],
)
def test_roles_are_checked(roles, fault):
    good = ["head", "other", "other", "spouse", "child"]
    people = {"of": ["b"] * 5 + ["a"] * len(roles), "role": good + roles}
    people |= {"sex": [1] * len(people["of"]), "age": ["young"] * len(people["of"])}
    groups = pa.table({"id": ["a", "b"], "region": ["n", "s"]})
    with pytest.raises(UserError) as refusal:
        from_tables(grouped.RELATED, groups, pa.table(people), **KEYS)
    assert refusal.value.lines == (f"groups: 1 group with {fault}, such as that of key a",)
    column = grouped.RELATED.person[0]
    codes = np.array([[column.code(r), 0, 0] for r in roles])
    with pytest.raises(ValueError, match=fault):
        Hierarchy(grouped.RELATED, [[0, len(roles) - 1]], codes, np.zeros(len(roles)))


@pytest.mark.parametrize(
    ("groups", "people", "group_of", "fault"),
    [
        ([[0, 1]], [[0, 0]], [0], "not the number"),
        ([[0, 0], [0, 0]], [[0, 0]], [0], "between 1 and 3"),
        ([[0, 2]], [[0, 0]] * 4, [0] * 4, "between 1 and 3"),
        ([[0, 0], [0, 0]], [[0, 0]] * 2, [1, 0], "increasing"),
        ([[0, 0]], [[0, 0]], [1], "not there"),
        ([[0, 0]], [[0, 0]], [0, 0], "for each person"),
        ([[2, 0]], [[0, 0]], [0], "outside its column"),
        ([[0, 0]], [[-1, 0]], [0], "outside its column"),
        ([[0, 0]], [[0]], [0], "for each attribute"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(groups, people, group_of, fault):
    with pytest.raises(ValueError, match=fault):
        Hierarchy(SMALL, np.array(groups), np.array(people), np.array(group_of))


def test_codes_are_kept_small():
    hierarchy = Hierarchy(SMALL, np.array([[0, 0]], np.int16), np.array([[3, 1]]), np.array([0]))
    assert (hierarchy.groups.dtype, hierarchy.people.dtype) == (np.uint8, np.uint8)
    assert hierarchy.group_of.dtype == np.int64
    part = Hierarchy(SMALL, [[0, 0], [1, 1]], [[0, 0], [1, 0], [1, 1]], [0, 1, 1]).part(1, 2)
    assert (part.groups.tolist(), part.group_of.tolist()) == ([[1, 1]], [0, 0])


ROLE = Column("role", ("h", "s", "c"))


@pytest.mark.parametrize(
    ("declare", "fault"),
    [
        (lambda: Column("x", ()), "declare 1 to"),
        (lambda: Column("x", (1, "1")), "twice"),
        (lambda: Column("x", ("a", "")), "empty"),
        (lambda: Column("x", ("a",), missing="b"), "missing"),
        (lambda: Column("x", ("a",)).code("b"), "none of its declared"),
        (lambda: Domain((ROLE,), (ROLE,), 2), "'role': declared twice"),
        (lambda: Domain((), (Column("size", (1,)),), 2), "reserved"),
        (lambda: Domain((), (), 2), "at least one"),
        (lambda: Domain((), (ROLE,), 0), "largest group"),
        (
            lambda: Domain(
                (), (ROLE,), 4, Roles(column="kin", head="h", spouse="s", child="c", children=1)
            ),
            "no person column 'kin'",
        ),
        (
            lambda: Domain(
                (), (ROLE,), 4, Roles(column="role", head="h", spouse="h", child="c", children=1)
            ),
            "three values",
        ),
        (
            lambda: Domain(
                (), (ROLE,), 4, Roles(column="role", head="h", spouse="s", child="x", children=1)
            ),
            "none of its declared",
        ),
        (
            lambda: Domain(
                (), (ROLE,), 4, Roles(column="role", head="h", spouse="s", child="c", children=4)
            ),
            "fewer than the largest",
        ),
    ],
)
def test_declarations_that_cannot_be_are_refused(declare, fault):
    with pytest.raises(UserError, match=fault):
        declare()
