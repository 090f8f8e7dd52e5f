"""The format of recorded rounds: one of this version is replayed, another is refused in words."""

from fractions import Fraction

import msgspec
import numpy as np
import pytest
from kit import small_groups
from kit.small_groups import Never, Silent

from stream_dp.batch import kinds
from stream_dp.batch.synthesizer import FORMAT, FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SystemNoise
from stream_dp.study.families import Family, kinds_of
from stream_dp.study.group_releases import BatchRelease

BATCH_KINDS = kinds_of(Family.HOUSEHOLDS)

TRUTH = small_groups.hierarchy()
KINDS = [kind for kind in BATCH_KINDS if not kind.startswith("hpd")]


def fit(kind, source, transcript):
    release = BatchRelease(
        name="r", kind=kind, attributes=("a", "b"), rho=Fraction(1, 2), every=1, rounds=2, ways=2
    )
    return kinds.load_synthesizer(kind)(TRUTH, release, FitContext(source, transcript))


@pytest.mark.parametrize("kind", BATCH_KINDS)
@pytest.mark.parametrize("stated", [b"", b"2"])
def test_rounds_of_another_format_are_refused(kind, stated):
    """Nothing is drawn, and nothing recorded."""
    begun = [b"s" * 32 + stated, msgspec.msgpack.encode(([0], b""))]
    for recorded in (begun[:1], begun):
        transcript = MemoryTranscript(list(recorded))
        with pytest.raises(UserError, match="finish the job with the version that began it"):
            fit(kind, Never(), transcript)
        assert transcript.recorded == recorded


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_of_this_version_are_replayed(kind):
    transcript = MemoryTranscript()
    first = fit(kind, SystemNoise(), transcript)
    assert transcript.recorded[0][32:] == FORMAT == b"1"
    again = fit(kind, Never(), transcript)
    assert (again.measurements.values == first.measurements.values).all()
    assert again.measurements.variances == first.measurements.variances


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_records_first_decides(kind):
    """Another worker, of another version, records round 0 between the look and the record."""

    class Taken(MemoryTranscript):
        def rounds(self):
            return []

        def record(self, number, data):
            return b"s" * 32

    with pytest.raises(UserError, match="does not know"):
        fit(kind, Silent(), Taken())


def test_what_is_free_has_the_noise_of_the_others():
    """Independent attributes: of groups and people alike, m / rho for m attributes of people."""
    fitted = fit("independent", SystemNoise(), MemoryTranscript())
    assert set(fitted.measurements.variances) == {Fraction(2, 1) / Fraction(1, 2)}
    texts = [text.split(":")[0] for text in fitted.measurements.queries]
    assert texts == ["groups"] * 4 + ["people"] * 5
    assert np.issubdtype(fitted.measurements.values.dtype, np.integer)
