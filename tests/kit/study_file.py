"""A study file as text, and changes of it."""

TEXT = """
[study]
name = "poverty"
unit = "household"
neighbours = "replace_one"
rho = 0.01
delta = 1e-6

[study.periods]
first = "2021-01"
every = "month"
count = 12

[study.population]
size = 23374

[attributes.poverty]
values = [0, 1]
missing = 0

[attributes.work]
values = ["no", "part", "full"]
missing = { carry = true, first = "no" }

[[releases]]
name = "quarters"
kind = "window"
attribute = "poverty"
width = 3
rho = 0.005

[[releases]]
name = "months-in-poverty"
kind = "cumulative"
attribute = "poverty"
event = [1]
rho = "1/200"

[run]
log = "sqlite:poverty.db"
"""


def without(*lines):
    text = TEXT
    for line in lines:
        assert line in text
        text = text.replace(line + "\n", "")
    return text


def changed(old, new, text=TEXT):
    assert old in text
    return text.replace(old, new, 1)
