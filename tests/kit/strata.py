"""Studies of fixed attributes, products, strata and waves, and a plain model of their counts."""

import itertools
from collections import Counter

from hypothesis import strategies as st

from stream_dp.studyfile import parse_study

KEY = b"k" * 32
PERIODS = [str(n) for n in range(1, 6)]
IDS = [f"p{i}" for i in range(6)]
GONE = "absent"


def make(size=None, **job):
    """A study of every shape that a release can have."""
    neighbours = "replace_one" if size else "add_remove"
    rows = {} if size else {"rows": 50}
    pair = {"attribute": ["poor", "job"], "rho": 1}
    layer = {"rows": 50, "rho": 1}
    kinds = [
        {"kind": "window", "width": 2, **pair},
        {"kind": "window", "width": 3, "attribute": "poor", "strata": "region", **layer},
        {"kind": "window", "width": 1, **pair, "first": "3", "last": "4"},
        {"kind": "cumulative", "event": ["poor=1", "job=no"], **pair, **rows},
        {"kind": "cumulative", "event": [1], "attribute": "poor", "strata": "region", **layer},
        {
            "kind": "cumulative",
            "event": ["poor=1&job=no"],
            **pair,
            **layer,
            "waves": {"by": "wave", "every": 1, "length": 3},
        },
        {
            "kind": "joint",
            "width": 2,
            "event": ["no"],
            "attribute": "job",
            **layer,
            "where": {"wave": 2},
            "first": "2",
        },
    ]
    return parse_study(
        {
            "study": {
                "name": "layers",
                "unit": "person",
                "neighbours": neighbours,
                "rho": 20,
                "delta": "1/1000",
                "periods": {"first": 1, "every": "step", "count": len(PERIODS)},
                "population": {"size": size} if size else {},
            },
            "attributes": {
                "poor": {"values": [0, 1], "missing": GONE},
                "job": {"values": ["yes", "no"], "missing": GONE, **job},
                "region": {"values": ["north", "south"], "missing": GONE, "fixed": True},
                "wave": {"values": [1, 2], "missing": GONE, "fixed": True},
            },
            "releases": [{"name": f"r{i}", **kind} for i, kind in enumerate(kinds)],
        }
    )


STUDIES = {
    "open": make(),
    "bounded": make(4),
    "open, carried": make(missing={"carry": True, "first": "yes"}),
    "bounded, carried": make(8, missing={"carry": True, "first": "no"}),
    "open, closed job": make(missing="yes"),
}

reports = st.fixed_dictionaries(
    {
        "person": st.sampled_from(IDS),
        "period": st.sampled_from(PERIODS),
        "values": st.fixed_dictionaries(
            {},
            optional={
                "poor": st.sampled_from([0, 1, None]),
                "job": st.sampled_from(["yes", "no", None]),
                "region": st.sampled_from(["north", "south", "south", None]),
                "wave": st.sampled_from([1, 2, "2", None]),
            },
        ).filter(bool),
    }
)
# By period, what comes while it is open: pairs of a partition and a report.
streams = st.lists(
    st.lists(st.tuples(st.integers(0, 1), reports), max_size=9),
    min_size=len(PERIODS),
    max_size=len(PERIODS),
)


class Model:
    """People as a dictionary: each one's value of each attribute in each closed period."""

    def __init__(self, study, order):
        self.study, self.order = study, order
        self.cells, self.places = {}, []
        self.histories = {}  # by place: a list of values by attribute
        self.tally = Counter()
        self.rejected = Counter()
        self.totals, self.entered = Counter(), set()

    def take(self, period, place, report):
        """period: the open one; place: (partition, offset)."""
        self.tally["received"] += len(report["values"])
        number = int(report["period"])
        if number < period:
            self.rejected["late"] += len(report["values"])
            return
        for name, value in report["values"].items():
            self.cells.setdefault((number, report["person"], name), []).append((place, value))

    def close(self, period):
        """Counts by release, from the definitions."""
        final = {}
        for cell in [cell for cell in self.cells if cell[0] == period]:
            reports = self.cells.pop(cell)
            self.tally["superseded"] += len(reports) - 1
            final[cell[1:]] = max(reports, key=lambda one: one[0])[1]
        named = {person for (person, _), value in final.items() if value is not None}
        new = sorted(named - set(self.places), key=self.order)
        size = self.study.size
        self.places += new if size is None else new[: size - len(self.places)]
        for (person, name), value in final.items():
            past = self.histories.get(person, [])
            before = past[-1][name] if past else GONE
            fixed = self.study.attributes[name].fixed and before != GONE
            if value is not None and person not in self.places:
                self.rejected["full"] += 1
            elif value is not None and fixed and str(before) != str(value):
                self.rejected["fixed"] += 1
            else:
                self.tally["accepted"] += 1
        everybody = [*self.places]
        if size is not None:
            everybody += [("nobody", i) for i in range(len(self.places), size)]
            for place, person in enumerate(self.places):
                # A claimed place was nobody's until then.
                if person not in self.histories:
                    self._becomes(("nobody", place), person)
        for person in everybody:
            past = self.histories.setdefault(person, [])
            past += [self._unknown()] * (period - 1 - len(past))
            past.append(self._value(past, person, final))
        return {r.name: self._counts(r, everybody, period) for r in self.study.releases}

    def _becomes(self, nobody, person):
        self.histories[person] = self.histories.pop(nobody, [])
        for release in self.study.releases:
            key = (release.name, nobody)
            self.totals[release.name, person] = self.totals.pop(key, 0)
            if key in self.entered:
                self.entered.add((release.name, person))

    def _unknown(self):
        return {n: a.symbols[a.first_code] for n, a in self.study.attributes.items()}

    def _value(self, past, person, final):
        before = past[-1] if past else self._unknown()
        now = {}
        for name, attribute in self.study.attributes.items():
            answer = final.get((person, name))
            now[name] = attribute.symbols[attribute.first_code]
            if attribute.carries or attribute.fixed:
                now[name] = before[name]
            if answer is not None and not (attribute.fixed and before[name] != GONE):
                now[name] = attribute.symbols[attribute.codes[answer]]
        return now

    def _symbol(self, release, values):
        """The name of what a person is, as the release sees it."""
        if any(values[name] != value for name, value in (release.where or {}).items()):
            return GONE
        own = [values[name] for name in release.attributes]
        if len(own) == 1:
            return own[0]
        if all(value == GONE for value in own):
            return GONE
        return "&".join(f"{n}={v}" for n, v in zip(release.attributes, own, strict=True))

    def _when_present(self, release, everybody):
        """Where it is measured: people by when they were there, in the last 2k - 1 periods."""
        absent = self.study.presence(release)
        if absent is None:
            return []
        reach, gone = 2 * release.width - 1, self.study.alphabet(release).values[absent]
        counts = [0] * 2**reach
        for person in everybody:
            past = [self._symbol(release, v) != gone for v in self.histories[person]]
            counts[sum(here << g for g, here in enumerate(past[::-1][:reach]))] += 1
        return counts

    def _counts(self, release, everybody, period):
        study = self.study
        names = study.alphabet(release).values
        unknown = self._symbol(release, self._unknown())
        counts = []
        if release.kind != "cumulative":
            windows = Counter()
            for person in everybody:
                past = [self._symbol(release, v) for v in self.histories[person]]
                windows[tuple([*[unknown] * release.width, *past][-release.width :])] += 1
            counts += [windows[w] for w in itertools.product(names, repeat=release.width)]
            counts += self._when_present(release, everybody)
        if release.kind == "window":
            return counts
        first, last = study.span(release)
        rises = [0] * (last - first + 2)
        if first <= period <= last:
            events = {names[code] for code in study.event_codes(release)}
            for person in everybody:
                now, key = self._symbol(release, self.histories[person][-1]), (release.name, person)
                if now in events:
                    self.totals[key] += 1
                    rises[self.totals[key] - 1] += 1
                if now != GONE and key not in self.entered:
                    self.entered.add(key)
                    rises[-1] += 1
        return counts + rises
