"""Releases: certificates, parts that fit a record, and reading them without this package."""

import hashlib
import json
import math
from fractions import Fraction

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from kit.kinds_of_releases import study_of

from stream_dp import __version__
from stream_dp.continual.mechanism_interface import Estimates, Step
from stream_dp.continual.mechanisms import mechanism
from stream_dp.log.log import MAX_RECORD
from stream_dp.log.message import MAX_PART, START, build_message, message_records, parts_in_records
from stream_dp.privacy import noise
from stream_dp.privacy.noise import Measurements, SeededNoise, exact_variance
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.arrow_parts import read_measurements
from stream_dp.release.certificate import (
    SEEDED_NOISE,
    gaussian_words,
    invariants_words,
    relation_words,
)
from stream_dp.release.published_panels import (
    PanelCertificate,
    panel_certificate,
    panel_noise,
    panel_parts,
    read_columns,
    read_estimates,
)
from stream_dp.study.families import Kind
from stream_dp.studyfile import parse_study


def make(neighbours="replace_one", values=(0, 1), width=3, size=500):
    replace = neighbours != "add_remove"
    return parse_study(
        {
            "study": {
                "name": "released",
                "unit": "household",
                "neighbours": neighbours,
                "rho": "1/10",
                "delta": "1/1000000",
                "periods": {"first": "2021-01", "every": "month", "count": 6},
                "population": {"size": size} if replace else {},
            },
            "attributes": {"poverty": {"values": list(values), "missing": values[0]}},
            "releases": [
                {
                    "name": "quarters",
                    "kind": "window",
                    "attribute": "poverty",
                    "width": width,
                    "rho": "1/20",
                },
                {
                    "name": "months",
                    "kind": "cumulative",
                    "attribute": "poverty",
                    "event": [values[-1]],
                    "rho": "1/20",
                }
                | ({} if replace else {"size_share": "1/10"}),
            ],
        }
    )


def stepped(study, release, periods):
    """The step of a release's mechanism at a period, of a population without the event."""
    panel_mechanism, source = mechanism(study, release), SeededNoise(7)
    state = panel_mechanism.init()
    for t in range(1, periods + 1):
        if release.kind == "window":
            counts = np.zeros(panel_mechanism.measurement.counts_size, np.int64)
            counts[0] = 500
            counts[panel_mechanism.bins :][:1] = 500  # at no time anything but the filler
        else:
            counts = np.zeros(study.periods.count + 1, np.int64)
            counts[-1] = 500
        state, step = panel_mechanism.step(state, counts, source.draw(panel_mechanism.demand(t)))
    return panel_mechanism, step


@pytest.mark.parametrize("neighbours", ["replace_one", "replace_in_place", "add_remove"])
@pytest.mark.parametrize(("place", "period"), [(0, 3), (0, 4), (1, 1), (1, 5)])
def test_a_certificate_says_what_is_guaranteed(neighbours, place, period):
    study = make(neighbours)
    declared = study.releases[place]
    panel_mechanism, step = stepped(study, declared, period)
    cost, spent = panel_mechanism.charges[period - 1], Fraction(3, 100)
    certificate = panel_certificate(
        study,
        declared,
        mechanism=panel_mechanism,
        number=period,
        step=step,
        rho=cost,
        spent=spent,
        simulated=False,
    )
    fields = json.loads(json.dumps(certificate.model_dump(mode="json")))
    months = [f"2021-0{i}" for i in range(1, period + 1)]
    first = period == 3 and place == 0
    assert fields["type"] == "stream-dp.release"
    assert (fields["study"], fields["study_hash"]) == ("released", study.hash)
    assert (fields["release"], fields["kind"]) == (declared.name, declared.kind)
    assert (fields["period"], fields["number"], fields["horizon"]) == (months[-1], period, 6)
    assert fields["columns"] == (months[-3:] if first else months[-1:])
    assert fields["rows"] == step.columns.shape[0] > 0
    assert (fields["attribute"], fields["values"]) == ("poverty", [0, 1])
    assert fields["mechanism"] == panel_mechanism.title
    assert fields["parameters"] == (
        {"width": 3, "failure": "1/20"}
        if place == 0
        else {"event": [1], "failure": "1/20"}
        | ({"size_share": "1/10"} if neighbours == "add_remove" else {})
    )
    assert (fields["unit"], fields["neighbours"]) == ("household", neighbours)
    assert fields["guarantee"] == relation_words(study)
    assert fields["invariants"] == invariants_words(study)
    assert Fraction(fields["rho"]) == panel_mechanism.charges[period - 1] > 0
    assert Fraction(fields["rho_spent"]) == spent
    assert Fraction(fields["rho_total"]) == Fraction(1, 10)
    assert Fraction(fields["delta"]) == Fraction(1, 10**6)
    assert fields["epsilon_spent"] == str(epsilon(spent, study.delta))
    assert fields["epsilon_total"] == str(epsilon(study.rho, study.delta))
    assert fields["padding"] == panel_mechanism.padding
    assert Fraction(fields["noise_variance"]) == panel_mechanism.worst_variance
    assert fields["noise"] == panel_noise(panel_mechanism)
    assert fields["domain"] == "declared"
    assert fields["notes"] == step.notes
    assert fields["code_version"] == __version__
    assert PanelCertificate.model_validate(fields) == certificate
    simulated = panel_certificate(
        study,
        declared,
        mechanism=panel_mechanism,
        number=period,
        step=step,
        rho=cost,
        spent=spent,
        simulated=True,
    )
    assert simulated.noise == SEEDED_NOISE
    assert "NOT PRIVATE" in simulated.noise


@pytest.mark.parametrize(
    ("neighbours", "words"),
    [
        ("add_remove", "one household, with its whole history, is added or removed"),
        ("replace_one", "one household's whole history is replaced by any other"),
        ("replace_in_place", "one household's own attributes change, over the whole history"),
    ],
)
def test_the_guarantee_in_words(neighbours, words):
    study = make(neighbours)
    assert words in relation_words(study)
    assert "one household at a time, over all periods" in relation_words(study)
    public = invariants_words(study)
    assert public == (
        "none"
        if neighbours == "add_remove"
        else "the number of households, declared as 500"
    )  # fmt: skip


def test_later_versions_may_say_more():
    study = make()
    panel_mechanism, step = stepped(study, study.releases[0], 3)
    certificate = panel_certificate(
        study,
        study.releases[0],
        mechanism=panel_mechanism,
        number=3,
        step=step,
        rho=Fraction(0),
        spent=Fraction(0),
        simulated=True,
    )
    assert (
        PanelCertificate.model_validate({**certificate.model_dump(mode="json"), "more": 1})
        == certificate
    )


# Sizes.


def all_fit(step, labels):
    """The parts of a step, checked to fit a record, also inside the journal."""
    parts = panel_parts(step, labels)
    sent = build_message(1, START, {"any": "head"}, parts)
    for record in message_records(
        sent, "releases", kind="k", source="s", content="application/x", time=1e9
    ):
        assert len(record.value) + sum(len(v) for _, v in record.headers) <= MAX_RECORD
        assert len(msgspec.msgpack.encode(record)) <= MAX_PART
    return tuple(parts)


def step_of(columns, queries, variance=Fraction(7, 2)):
    measured = Measurements(
        queries,
        np.arange(len(queries), dtype=np.int64),
        (variance,) * len(queries),
    )
    return Step(columns, measured, estimates_of(measured))


def estimates_of(measured):
    """The measurements as estimates."""
    return Estimates(
        measured.queries, measured.values.astype(np.float64), measured.standard_errors()
    )


@pytest.mark.parametrize("rows", [0, 1, 299_999, 834_464, 834_465])
@pytest.mark.parametrize("periods", [1, 3])
def test_panels_of_any_size_come_back(rows, periods):
    labels = tuple(f"2021-{i:02d}" for i in range(1, periods + 1))
    columns = np.random.default_rng(1).integers(0, 250, (rows, periods), np.uint8)
    parts = all_fit(step_of(columns, ("pattern 1",)), labels)
    codes, periods_ = read_columns(parts)
    assert periods_ == labels
    assert codes.dtype == np.uint8
    assert np.array_equal(codes, columns)


def test_three_hundred_thousand_rows_with_the_longest_values():
    # 64 characters of 4 bytes each, and quotation marks that have to be quoted.
    values = tuple(chr(0x1F600 + i) * 60 + "'\" \\" for i in range(4))
    study = make(values=values, width=6, size=300_032)
    declared = study.releases[0]
    panel_mechanism = mechanism(study, declared)
    counts = np.full(panel_mechanism.bins, 300_032 // panel_mechanism.bins, np.int64)
    counts[0] += 300_032 % panel_mechanism.bins
    state = panel_mechanism.init()
    for t in range(1, 7):
        state, step = panel_mechanism.step(
            state, counts, SeededNoise(3).draw(panel_mechanism.demand(t))
        )
    assert step.columns.shape[0] > 300_000
    labels = tuple(study.periods.labels)
    parts = all_fit(step, labels)
    assert len([name for name, _ in parts if name.startswith("panel/")]) >= 3
    assert len([name for name, _ in parts if name.startswith("measurements/")]) > 5
    columns, _ = read_columns(parts)
    assert np.array_equal(columns, step.columns)
    table = read_measurements(parts)
    assert table["query"].to_pylist() == list(step.measurements.queries)
    assert table["value"].to_pylist() == step.measurements.values.tolist()
    certificate = panel_certificate(
        study,
        declared,
        mechanism=panel_mechanism,
        number=6,
        step=step,
        rho=Fraction(1, 20),
        spent=Fraction(1, 20),
        simulated=False,
    )
    sent = build_message(6, "0" * 64, certificate.model_dump(mode="json"), parts)
    assert len(sent.manifest) < 50_000


def test_measurements_hold_exact_variances_and_standard_errors():
    variances = (Fraction(1, 50), Fraction(1, 3), Fraction(10**9, 7))
    measured = Measurements(("total at-least 1",) * 3, np.array([-5, 0, 2**62]), variances)
    estimates = Estimates(
        ("total at-least 1", "people"), np.array([-4.5, 2.0]), np.array([0.25, 3])
    )
    parts = panel_parts(Step(np.zeros((2, 1), np.uint8), measured, estimates), ("1",))
    table = read_measurements(tuple(parts))
    assert table.schema.names == ["query", "value", "variance", "standard_error"]
    assert table["value"].to_pylist() == [-5, 0, 2**62]
    assert [Fraction(v) for v in table["variance"].to_pylist()] == list(variances)
    errors = table["standard_error"].to_pylist()
    assert errors[0] == pytest.approx(0, abs=1e-5)
    assert errors[1] == exact_variance(Fraction(1, 3)) ** 0.5 < (1 / 3) ** 0.5
    assert math.isclose(errors[2], (10**9 / 7) ** 0.5, rel_tol=1e-6)
    assert read_estimates(tuple(parts)).to_pydict() == {
        "query": ["total at-least 1", "people"],
        "value": [-4.5, 2.0],
        "standard_error": [0.25, 3.0],
    }


def test_the_same_step_gives_the_same_bytes():
    study = make()
    runs = [panel_parts(stepped(study, study.releases[0], 3)[1], ("a", "b", "c")) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_release_can_be_read_with_arrow_and_json_alone():
    study = make()
    declared = study.releases[0]
    panel_mechanism, step = stepped(study, declared, 3)
    certificate = panel_certificate(
        study,
        declared,
        mechanism=panel_mechanism,
        number=3,
        step=step,
        rho=Fraction(1, 40),
        spent=Fraction(1, 40),
        simulated=False,
    )
    sent = build_message(
        4, "ab" * 32, certificate.model_dump(mode="json"), panel_parts(step, certificate.columns)
    )
    published = message_records(sent, "releases", kind="k", source="s", content="c", time=None)
    *parts_, manifest = [record.value for record in published]

    head = json.loads(manifest)
    assert hashlib.sha256(manifest).hexdigest() == sent.hash
    panels, answers, estimates = [], [], []
    for listed, data in zip(head["parts"], parts_, strict=True):
        assert hashlib.sha256(data).hexdigest() == listed["sha256"]
        assert len(data) == listed["bytes"]
        table = pa.ipc.open_stream(data).read_all()
        kind = listed["name"].partition("/")[0]
        {"panel": panels, "measurements": answers, "estimates": estimates}[kind].append(table)
    panel, answers, own_answers = map(pa.concat_tables, (panels, answers, estimates))
    assert panel.column_names == head["columns"] == ["2021-01", "2021-02", "2021-03"]
    assert panel.num_rows == head["rows"]
    assert max(panel["2021-01"].to_pylist()) < len(head["values"])
    # Nobody has the event: noisy differences of counts are near 500, and so is the first pattern.
    assert answers["query"].to_pylist()[:2] == ["residual 0 - 1, ?, ?", "residual ?, 0 - 1, ?"]
    noisy = answers["value"].to_pylist()
    assert abs(noisy[0] - 500) < 6 * answers["standard_error"][0].as_py()
    assert panel.num_rows == 500
    assert own_answers["query"].to_pylist()[:2] == ["pattern 0 0 0", "pattern 0 0 1"]
    estimated = own_answers["value"].to_pylist()
    assert abs(estimated[0] - 500) < 6 * own_answers["standard_error"][0].as_py()
    assert abs(sum(estimated) - 500) < 1e-9  # the public number of people
    assert parts_in_records(published) == sent.parts


def test_the_noise_names_the_samplers_that_draw_it():
    few, many = (Fraction(4), 10), (Fraction(4), 10_000)
    assert gaussian_words([few]).endswith("drawn by OpenDP's sampler")
    assert gaussian_words([many, many]).endswith("drawn by the table sampler of stream-dp")
    for both in ([few, many], []):
        assert "OpenDP's sampler, and by the table sampler of stream-dp" in gaussian_words(both)


def test_the_samplers_of_a_release_are_those_that_are_called(monkeypatch):
    called = set()
    for name, sampler in (("_from_table", "table"), ("_measurement", "OpenDP")):
        real = getattr(noise, name)

        def seen(*arguments, real=real, sampler=sampler):
            called.add(sampler)
            return real(*arguments)

        monkeypatch.setattr(noise, name, seen)
    study = make()
    for declared in study.releases:
        called.clear()
        panel_mechanism = mechanism(study, declared)
        for t in range(1, panel_mechanism.horizon + 1):
            noise.SystemNoise().draw(panel_mechanism.demand(t))
        assert {s for s in ("table", "OpenDP") if s in panel_noise(panel_mechanism)} == called


def test_persons_of_synthetic_households_are_not_published_exactly():
    study = parse_study(study_of(Kind.MWEM))
    assert invariants_words(study).startswith(
        "the number of persons, declared as 60; those of synthetic households add up to about as"
        " many; the households: "
    )
