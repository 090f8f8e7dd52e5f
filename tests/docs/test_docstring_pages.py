"""Docstrings on the page of the Python reference."""

from docstrings import markdown


def test_arguments_are_a_list_and_examples_are_code():
    docstring = (
        "Fits a table.\n\nThe cost adds up.\n\ntable: any table\nfirst, count: the first period\n"
        "    and how many follow\n\nReturns a table.\n\n>>> f(1)\n['a', 'b']\n\nEnd: no list."
    )
    assert markdown(docstring) == (
        "Fits a table.\n\nThe cost adds up.\n\n- `table`: any table\n- `first, count`: the first"
        " period\n    and how many follow\n\nReturns a table.\n\n```pycon\n>>> f(1)\n['a', 'b']\n"
        "```\n\nEnd: no list."
    )


def test_a_list_stands_apart_from_the_text_around_it():
    assert markdown("Says.\nname: a name\nRaises ValueError.") == (
        "Says.\n\n- `name`: a name\n\nRaises ValueError."
    )
