"""Public logs in memory, as a releaser would have written them, for tests of analysts' answers."""

from fractions import Fraction

import numpy as np

from kit.walks import when_present
from stream_dp.answers.error_weights import missing_weights
from stream_dp.client import PublicLog
from stream_dp.continual.cumulative.cumulative import total_increments
from stream_dp.continual.mechanisms import mechanism
from stream_dp.log.log import Batch, Stored, TopicInfo
from stream_dp.log.message import START, build_message, message_records
from stream_dp.panel import window_codes
from stream_dp.planning.plan import ProvedEpsilon
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.published_panels import STUDY_TYPE, panel_certificate, panel_parts
from stream_dp.release.study_plan import plan_parts, study_plan


class TopicInMemory:
    """A log of one topic, in memory."""

    def __init__(self, records):
        self._records = [
            Stored(
                partition=0, offset=i, time=r.time or 0, key=r.key, value=r.value, headers=r.headers
            )
            for i, r in enumerate(records)
        ]

    def describe(self, topic):
        assert topic == "releases"
        return TopicInfo("in memory", 1, {0: 0})

    def read(self, topic, positions, limit, timeout):
        start = positions[0]
        records = self._records[start : start + limit]
        return Batch(records, {0: start + len(records)}, start + len(records) == len(self._records))


def log_in_memory(sent):
    return TopicInMemory(
        r
        for one in sent
        for r in message_records(one, "releases", kind="k", source="s", content="c", time=None)
    )


class Silent:
    """No noise at all."""

    simulated = True

    def draw(self, demand):
        drawn = SeededNoise(1).draw(demand)
        return type(drawn)(tuple(noise * 0 for noise in drawn.noise), drawn.coins)


def counts_of(study, declared, symbols, t):
    """What a release's mechanism takes at its period t, of symbols (people, periods) from its
    first one; of window releases nothing before t = width."""
    alphabet, counts = study.alphabet(declared), []
    q = len(alphabet.values)
    if declared.kind != "cumulative":
        cells = np.zeros(q**declared.width, np.int64)
        if t >= declared.width:
            codes = window_codes(symbols[:, t - declared.width : t], q)
            cells = np.bincount(codes, minlength=cells.size)
        counts.append(cells)
        absent = study.presence(declared)
        if absent is not None:
            counts.append(when_present(symbols, t, declared.width, absent))
    if declared.kind != "window":
        counts.append(
            total_increments(symbols, study.event_codes(declared), alphabet.absent)[t - 1]
        )
    return np.concatenate(counts).astype(np.int64)


def published(study, truth, source, periods=None):
    """The public messages of a study. truth: by stream, the symbols (people, periods)."""

    def counts(declared, number):
        first, last = study.span(declared)
        symbols = truth[declared.stream][:, first - 1 : last]
        return counts_of(study, declared, symbols, study.time(declared, number))

    return _published(study, counts, source, periods)


def _published(study, counts, source, periods=None):
    """counts: of a release at a period number, what its mechanism takes."""
    head = {"type": STUDY_TYPE, "study": study.model_dump(mode="json", exclude_none=True)}
    mechanisms = {r.name: mechanism(study, r) for r in study.releases}
    proved = ProvedEpsilon(study, mechanisms)
    parts = plan_parts(study_plan(study, mechanisms, {}, proved.least_variance))
    messages = [build_message(0, START, {**head, "study_hash": study.hash}, parts)]
    states = {name: m.init() for name, m in mechanisms.items()}
    spent = Fraction(0)
    for number in range(1, (periods or study.periods.count) + 1):
        for declared in study.releases:
            m, t = mechanisms[declared.name], study.time(declared, number)
            if t is None:
                continue
            draw = source.draw(m.demand(t))
            states[declared.name], step = m.step(
                states[declared.name], counts(declared, number), draw
            )
            cost = m.charges[t - 1]
            spent += cost
            if step is None:
                continue
            certificate = panel_certificate(
                study,
                declared,
                mechanism=m,
                number=number,
                step=step,
                rho=cost,
                spent=spent,
                simulated=source.simulated,
            ).model_copy(update=proved.stated(spent))
            certificate_fields = certificate.model_dump(mode="json")
            messages.append(
                build_message(
                    len(messages),
                    messages[-1].hash,
                    certificate_fields,
                    panel_parts(step, certificate.columns),
                )
            )
    return messages


def public(study, truth, source, periods=None):
    return PublicLog(log_in_memory(published(study, truth, source, periods)))


def with_weights(messages):
    """The public messages, and after them the weights of all panels so far."""
    messages = list(messages)
    for head, parts in missing_weights(PublicLog(log_in_memory(messages))):
        fields = head.model_dump(mode="json")
        messages.append(build_message(len(messages), messages[-1].hash, fields, parts))
    return messages


def public_of(study, counts, source):
    """counts: period by period, by release, what its mechanism takes."""
    return PublicLog(
        log_in_memory(_published(study, lambda one, number: counts[number - 1][one.name], source))
    )
