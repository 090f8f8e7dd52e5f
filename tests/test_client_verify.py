"""Public logs that contradict themselves are refused."""

import pytest
from kit.employment import EXACT, employment_study, published_messages
from kit.public_logs import Silent, log_in_memory

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent
from stream_dp.log.message import START, build_message, canonical
from stream_dp.release.certificate import SEEDED_NOISE, SYSTEM_NOISE


def rewritten(sent, place, **changed):
    """A chain with other words in one manifest and every later link made to fit."""
    messages = list(sent[:place])
    for message in sent[place:]:
        previous = messages[-1].hash if messages else START
        head = {**message.head, **changed} if message.index == place else message.head
        messages.append(build_message(message.index, previous, head, message.parts))
    return PublicLog(log_in_memory(messages))


SENT = published_messages(employment_study(), Silent())


@pytest.mark.parametrize(
    ("place", "changed", "error"),
    [
        (0, {"type": "other"}, "does not begin with a study's declaration"),
        (0, {"study": {"name": "x"}}, "does not begin with a study's declaration"),
        (0, {"study": {**SENT[0].head["study"], "batches": None}}, "does not have its hash"),
        (0, {"study_hash": "f" * 64}, "declaration does not have its hash"),
        (2, {"study_hash": "f" * 64}, "of another study"),
        (2, {"rho": "1/1000"}, "its budget does not add up"),
        (2, {"rho_spent": "0"}, "its budget does not add up"),
        (2, {"rows": 3}, "not the columns of its certificate"),
        (2, {"columns": ["2021-Q1"]}, "not the columns of its certificate"),
        (2, {"rho": "much"}, "a certificate cannot be read"),
        (2, {"rho": "1/0"}, "a certificate cannot be read"),
        (2, {"type": "other"}, "a certificate cannot be read"),
        (2, {"rows": None}, "a certificate cannot be read"),
    ],
)
def test_what_contradicts_itself_is_refused(place, changed, error):
    with pytest.raises(Inconsistent, match=error):
        rewritten(SENT, place, **changed).verify()


STATED = {
    "kind": "cumulative",
    "period": "2021-Q4",
    "number": 4,
    "horizon": 5,
    "mechanism": "another one",
    "parameters": {"width": 3},
    "unit": "household",
    "neighbours": "add_remove",
    "guarantee": "Nobody learns anything.",
    "invariants": "none",
    "domain": "declared by nobody",
    "rho_total": "5",
    "delta": "1/10",
    "epsilon_spent": "0.1",
    "epsilon_total": "0.1",
    "noise": "quantum",
    "attribute": "income",
    "values": [0, 1, 2],
    "padding": 7,
    "noise_variance": "1/3",
    "panel_bias": "none",
    "panel_errors": [{"query": "total at-least 1", "error": 0.1, "bias": 0.0}],
}


@pytest.mark.parametrize("field", STATED)
def test_what_does_not_follow_from_the_study_is_refused(field):
    """Every text, and every number that the study gives, in a log without a signature."""
    place = 2
    assert SENT[place].head[field] != STATED[field]
    with pytest.raises(Inconsistent, match=f"message {place}: .*{field}|budget|number"):
        rewritten(SENT, place, **{field: STATED[field]}).verify()


def test_seeded_noise_and_other_noise_do_not_mix():
    assert SENT[2].head["noise"] == SEEDED_NOISE
    with pytest.raises(Inconsistent, match="do not mix"):
        rewritten(SENT, 2, noise=SYSTEM_NOISE).verify()


def test_a_bias_that_is_left_out_is_missed():
    with pytest.raises(Inconsistent, match="panel_bias"):
        rewritten(SENT, 2, panel_bias=None).verify()


def test_two_releases_of_a_period_are_refused():
    sent = list(SENT)
    last = sent[-1]
    sent.append(build_message(last.index + 1, last.hash, last.head, last.parts))
    with pytest.raises(Inconsistent, match="over the budget"):
        PublicLog(log_in_memory(sent)).verify()


def test_a_period_of_a_panel_twice_is_refused():
    # The same column again under the number of the next period.
    first, second = (m for m in SENT[1:] if m.head["release"] == "full-time" and m.index < 4)
    head = {**second.head, "columns": list(first.head["columns"])}
    sent = [SENT[0], first]
    sent.append(build_message(2, first.hash, head, first.parts))
    with pytest.raises(Inconsistent, match="cannot be released again"):
        PublicLog(log_in_memory(sent)).panel("full-time")


def test_the_manifest_is_the_certificate():
    for sent, release in zip(SENT[1:], EXACT["replace_one"].releases, strict=True):
        fields = release.certificate.model_dump(mode="json")
        assert all(sent.head[name] == value for name, value in fields.items() if name != "notes")
        assert canonical(sent.head)
