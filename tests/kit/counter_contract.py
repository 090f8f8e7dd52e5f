"""What a stream counter owes, as checks that name the part that is missing or wrong.

Each check takes a kind. `CHECKS` has the checks by part, in the order in which `first_fault` runs
them. `nameless` compares the modules with the kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from importlib import import_module
from itertools import accumulate, product
from pathlib import Path

import numpy as np
import study_keys

from stream_dp.continual import counters
from stream_dp.continual.counters.methods import CounterMethod, counter, counter_method, module_name
from stream_dp.continual.counters.stream_counters import Counter, trailing
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.mechanism_interface import packed_designs, unpacked_designs
from stream_dp.continual.mechanisms import mechanism
from stream_dp.planning.plan import plan_study
from stream_dp.privacy.noise import Draw, SeededNoise, exact_variance
from stream_dp.study import CounterKind

from .studies import cumulative, small_study
from .walks import counts_of, released

FOLDER = Path(counters.__file__).parent
RHO = Fraction(1, 200)
HORIZON = 5
LENGTHS = (1, 2, 3, 4, 7, 12, 16, 33, 60)
WORST_RATIO = 3.0  # of a counter's error to the lower bound, up to 60 steps


def totals(kind: CounterKind, horizon: int = HORIZON, **declared: object) -> Cumulative:
    """The mechanism of totals with these counters."""
    fields = {"neighbours": "add_remove", "rows": 30, **declared}
    return Cumulative(horizon=horizon, rho=RHO, counter=kind, **fields)  # type: ignore[arg-type]


# The cost of a mechanism by brute force.


def histories(mechanism: Cumulative) -> list[np.ndarray]:
    """Everything that one person's periods may say: with absences, these come first."""
    return [
        np.array([[2] * gone + list(history[gone:])])
        for history in product((0, 1), repeat=mechanism.horizon)
        for gone in (range(mechanism.horizon + 1) if mechanism.present else [0])
    ]


def measured(mechanism: Cumulative, symbols: np.ndarray) -> list[np.ndarray]:
    """Everything that meets noise for one population, period by period."""
    vectors, state = [], mechanism.init()
    for t in range(1, mechanism.horizon + 1):
        state = mechanism.recorded(state, counts_of(mechanism, symbols, t))
        vectors.append(mechanism.measure(state.streams, t))
    return vectors


def exact_costs(mechanism: Cumulative, relation: str) -> list[Fraction]:
    """The worst cost of periods 1..t over all pairs of neighbours, from what is measured."""
    horizon = mechanism.horizon
    others = np.random.default_rng(5).integers(0, 2, (3, horizon))
    people = [measured(mechanism, np.concatenate([others, h])) for h in histories(mechanism)]
    nobody = [measured(mechanism, others)]
    weights = [
        np.array([1 / (2 * v) for v, size in mechanism.demand(t) for _ in range(size)])
        for t in range(1, horizon + 1)
    ]
    worst = [Fraction(0)] * horizon
    for here, there in product(people, nobody if relation == "add_remove" else people):
        total = Fraction(0)
        for t in range(horizon):
            change = (here[t] - there[t]).astype(object)
            assert len(change) == len(weights[t])
            total += sum(change * change * weights[t])
            worst[t] = max(worst[t], total)
    return worst


# The checks.


def check_about(kind: CounterKind) -> None:
    assert kind.about.endswith("."), "write a sentence about the counter in `CounterKind`"


def check_module(kind: CounterKind) -> None:
    path = FOLDER / f"{module_name(kind)}.py"
    assert path.is_file(), f"write {path.name}, whose METHOD makes the counter"


def check_method(kind: CounterKind) -> None:
    name = module_name(kind)
    module = import_module(f"{counters.__name__}.{name}")
    assert isinstance(getattr(module, "METHOD", None), CounterMethod), f"{name}.py has no METHOD"


def check_title(kind: CounterKind) -> None:
    title = counter_method(kind).title
    assert title, "certificates name the algorithm and its source"
    assert title in totals(kind).title


def check_factorization(kind: CounterKind) -> None:
    """decode @ encode are the prefix sums, and no row looks ahead."""
    for n in LENGTHS:
        own, steps = counter(kind, n), np.arange(1, n + 1)
        assert own.length == n
        assert own.encode.dtype == np.int64
        assert own.decode.dtype == np.float64
        sums = own.decode @ own.encode / own.scale
        assert np.abs(sums - np.tril(np.ones((n, n)))).max() < 1e-12, "other sums"
        assert (np.diff(own.times) >= 0).all()
        assert not own.encode[own.times[:, None] < steps[None, :]].any(), "looks ahead"
        assert not own.decode[steps[:, None] < own.times[None, :]].any(), "uses later answers"
        assert [own.rows(i) for i in range(n + 1)] == [
            int((own.times <= i).sum()) for i in range(n + 1)
        ]
        stream = np.random.default_rng(3).integers(0, 10**6, n)
        decoded = own.decode @ (own.encode @ stream) / own.scale
        assert np.abs(decoded - stream.cumsum()).max() < 1e-5


def check_cost(kind: CounterKind) -> None:
    """Charges are the exact worst cost of every prefix, by all pairs of histories."""
    for relation, present, horizons in (
        ("add_remove", False, (1, 4, 5)),
        ("replace_one", False, (1, 4, 5)),
        ("add_remove", True, (1, 2, 3, 4)),
        ("replace_one", True, (1, 2, 3)),
    ):
        for horizon in horizons:
            own = totals(kind, horizon, neighbours=relation, present=present)
            assert exact_costs(own, relation) == list(accumulate(own.charges)), relation
            whole = counter_method(kind).endless_column2 is None
            assert sum(own.charges) == RHO if whole else sum(own.charges) < RHO


def check_error(kind: CounterKind) -> None:
    """The worst error lies between a lower bound and a few times that.

    With A = B C the sum of the singular values of A is at most the product of the Frobenius norms
    of B and C, so a n-th of it is at most the largest row norm of B times the largest column norm
    of C.
    """
    for n in LENGTHS:
        bound = float(np.linalg.svd(np.tril(np.ones((n, n))), compute_uv=False).sum()) / n
        ratio = counter(kind, n).errors.max() / bound
        assert 1 - 1e-9 <= ratio <= WORST_RATIO, f"{ratio:.2f} times the lower bound at {n} steps"


def check_variance(kind: CounterKind) -> None:
    """The stated variance of each sum is that of the noise which the sum combines."""
    own = totals(kind)
    demands = [own.demand(t) for t in range(1, HORIZON + 1)]
    variances: dict[tuple[int, int], float] = {}
    for s, demand in enumerate(demands, 1):
        for part, (variance, size) in enumerate(demand):
            for row in range(size):
                state = own.init()
                for t, shapes in enumerate(demands, 1):
                    noise = [np.zeros(n, np.int64) for _, n in shapes]
                    if s == t:
                        noise[part][row] = 1
                    state, _ = own.observe(state, np.zeros(HORIZON + 1, np.int64), noise)
                    for b, change in enumerate(own.sums(state), 1):
                        added = float(change) ** 2 * exact_variance(variance)
                        variances[b, t] = variances.get((b, t), 0.0) + added
    for (b, t), variance in variances.items():
        assert np.isclose(own.variance(b, t), variance, rtol=1e-9), f"S_{b} at {t}"


def check_whole_matrices(kind: CounterKind) -> None:
    """Whole numbers by definition; others of at most 32 bits, with a row for each step."""
    for n in LENGTHS:
        own = counter(kind, n)
        if counter_method(kind).whole_matrices:
            assert own.scale == 1, "these matrices are rounded"
        else:
            assert np.array_equal(own.times, np.arange(1, n + 1)), "one row a step can be stored"
            assert np.array_equal(own.encode, np.tril(own.encode))
            assert np.abs(own.encode).max() < 1 << 31


def check_whole_sums(kind: CounterKind) -> None:
    if counter_method(kind).whole_sums:
        for n in LENGTHS:
            own = counter(kind, n)
            assert own.scale == 1, "sums are not whole numbers"
            assert np.array_equal(own.decode, np.rint(own.decode)), "sums are not whole numbers"


def check_shorter(kind: CounterKind) -> None:
    """What a journal stores of the longest counter gives the shorter ones."""
    if not counter_method(kind).whole_matrices:
        for n in LENGTHS[1:]:
            part: Counter = trailing(counter(kind, n), n - 1)
            same = np.array_equal(part.encode, counter(kind, n - 1).encode)
            assert same, "a shorter counter is no part of a longer one"


def check_endless_column2(kind: CounterKind) -> None:
    """The bound holds for all lengths, and a longer counter begins as a shorter one does."""
    bound = counter_method(kind).endless_column2
    if bound is None:
        return
    longest = counter(kind, 600)
    assert (longest.encode >= 0).all()
    for n in (1, 2, 60, 300):
        own = counter(kind, n)
        assert own.column2 <= longest.column2 < bound(), "the bound is too small"
        assert np.array_equal(own.encode, longest.encode[: own.times.size, :n])


def check_study_file(kind: CounterKind) -> None:
    """A study file that names the counter loads, and `check` prints it."""
    study = small_study(releases=[cumulative("months", "poverty", [1], 1, counter=str(kind))])
    (release,) = study.releases
    chosen = mechanism(study, release)
    assert chosen.counter is kind
    assert f"  counter: {kind}\n" in plan_study(study).text()


reference = cache(study_keys.markdown)


def check_reference(kind: CounterKind) -> None:
    tables = reference()
    assert f'`"{kind}"`' in tables
    assert kind.about in tables


def check_state(kind: CounterKind) -> None:
    """Bytes of a state, and the stored design, give back what goes on as if nothing happened."""
    own = totals(kind, neighbours="replace_one")
    packed = packed_designs({"months": own.as_stored()})
    stored = unpacked_designs(packed)["months"].counters
    again = totals(kind, neighbours="replace_one", stored=stored)
    people = np.random.default_rng(8).integers(0, 2, (30, HORIZON))

    def draws() -> list[Draw]:
        return [SeededNoise(t).draw(own.demand(t)) for t in range(1, HORIZON + 1)]

    assert [again.demand(t) for t in range(1, HORIZON + 1)] == [
        own.demand(t) for t in range(1, HORIZON + 1)
    ]
    dumps: list[bytes] = []
    both = zip(released(own, people, draws()), released(again, people, draws()), strict=True)
    for (_, state, step, panel), (_, other, same, _) in both:
        dumps.append(own.dump(state))
        assert again.dump(other) == dumps[-1]
        assert again.dump(again.load(dumps, panel)) == dumps[-1]
        assert np.array_equal(step.columns, same.columns)
        assert np.array_equal(step.estimates.values, same.estimates.values)
        for each in (own, again):
            assert np.array_equal(each.load(dumps, panel).sums, state.sums)


CHECKS: dict[str, Callable[[CounterKind], None]] = {
    "about": check_about,
    "module": check_module,
    "METHOD": check_method,
    "title": check_title,
    "factorization": check_factorization,
    "whole_matrices": check_whole_matrices,
    "whole_sums": check_whole_sums,
    "shorter": check_shorter,
    "endless_column2": check_endless_column2,
    "error": check_error,
    "variance": check_variance,
    "study file": check_study_file,
    "reference": check_reference,
    "state": check_state,
    "cost": check_cost,
}


def first_fault(kind: CounterKind) -> tuple[str, str] | None:
    """The first part that is missing or wrong, and what its check says; None for a whole kind."""
    for part, check in CHECKS.items():
        try:
            check(kind)
        except Exception as error:  # whatever a missing part leads to
            return part, str(error)
    return None


@cache
def modules() -> frozenset[str]:
    """The modules of counters that have a method."""
    texts = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("*.py")}
    return frozenset(name for name, text in texts.items() if "\nMETHOD = " in text)


def nameless() -> tuple[str, str] | None:
    """The fault of a module that no kind names, or None."""
    for name in sorted(modules() - {module_name(kind) for kind in CounterKind}):
        return "CounterKind", f"{name}.py has a METHOD: add a member to `CounterKind`"
    return None


def first_fault_of(name: str) -> tuple[str, str] | None:
    """The first fault of the kind with this name, or of a module that no kind names."""
    named = [kind for kind in CounterKind if kind.value == name]
    return first_fault(named[0]) if named else nameless()
