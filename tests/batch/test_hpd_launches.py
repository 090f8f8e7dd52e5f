"""What a step of a fit would launch on a GPU, counted in the compiled program."""

import re

import numpy as np
from households import columns, random_queries

from stream_dp.batch.data.domain import Domain, Roles
from stream_dp.batch.groups.hpd import adam as fitting
from stream_dp.batch.groups.hpd.adam import AdamSettings
from stream_dp.batch.groups.hpd.model_arrays import pack_queries
from stream_dp.batch.groups.hpd.product_mixture import _ON_GPU, HPD

FREE = {"parameter", "tuple", "get-tuple-element", "constant", "bitcast"}
PEOPLE = columns("p", 3, 2, 9, 5, 6, 4, 8, 2)
ROLES = Roles(column="p0", head=0, spouse=1, child=2, children=4)
QUERIES = 4096


def launches(program, trips):
    """Operations of a pass through the outermost loop: those outside of fusions, by their times.

    Loops without a kind are additions to rows, of which a GPU needs one launch each.

    program: the text of a compiled program.
    trips: by kind, how often its loop runs.
    """
    bodies = {
        name: re.findall(r"^  (?:ROOT )?%\S+ = .*?[)\]}] ([a-z][\w-]*)\((.*)$", body, re.MULTILINE)
        for name, body in re.findall(r"^(?:ENTRY )?%(\S+) .*\{\n((?:  .*\n)+)\}", program, re.M)
    }

    def once(name):
        total = 0
        for operation, rest in bodies[name]:
            if operation == "while" and (kind := re.search(r"kind(\d+)/while", rest)):
                condition, body = re.search(r"condition=%(\S+), body=%(\S+?),", rest + ",").groups()
                times = trips[int(kind[1])]
                total += times * once(body) + (times + 1) * once(condition)
            else:
                total += operation not in FREE
        return total

    (entry,) = re.findall(r"^ENTRY %(\S+) ", program, re.MULTILINE)
    (outermost,) = (rest for operation, rest in bodies[entry] if operation == "while")
    return sum(
        once(re.search(rf"{part}=%([\w.-]+)", outermost)[1]) for part in ("condition", "body")
    )


def test_a_step_with_4096_queries_is_at_most_500_launches():
    """Of households with roles, whose queries have the most kinds."""
    family = HPD(Domain(columns("g", 5, 5, 3, 2), PEOPLE, 6, ROLES), 1000, 2500)
    queries = random_queries(np.random.default_rng(1), family.layout, QUERIES)
    ones = np.ones(QUERIES)
    chunks, _ = pack_queries(family.layout, family.encode(queries), _ON_GPU[0], ones, ones)
    trips = np.diff(chunks.ends, prepend=0)
    start = {name: np.zeros(shape, np.float32) for name, shape in family.shapes.items()}
    settings = AdamSettings(50, 0.1).as_arguments()
    program = fitting.adam.lower(family.layout, start, chunks, settings).compile().as_text()
    assert 50 < launches(program, trips) <= 500
