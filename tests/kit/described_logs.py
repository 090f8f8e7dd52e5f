"""A public log whose declared texts are as bad as a study file allows, and its curator's."""

from __future__ import annotations

import copy

import numpy as np

from kit import hostile, public_logs
from stream_dp.log.message import Message
from stream_dp.privacy.noise import SeededNoise
from stream_dp.studyfile import parse_study

LINE = "=cmd|' /C calc'!A0 \"q\" ]]> </script><script>alert(1)</script> é 数 &amp;"
BAD = f"{LINE} \u0001\u202e"
CURATOR = {
    "name": f"Agência {LINE}",
    "contact": "data@agency.example",
    "licence": "CC-BY-4.0",
    "intended_use": LINE,
    "region": "Ilha Terceira",
}


def described_messages(curator: dict[str, str] | None = None) -> list[Message]:
    """Three panels of four periods; the curator is `CURATOR` by default."""
    declared = copy.deepcopy(hostile.STUDY)
    declared["study"] |= {"description": f"{BAD}\n{BAD}", "curator": curator or CURATOR}
    declared["attributes"]["work"] |= {"interest": "full", "label": f"employed {BAD}"[:60]}
    study = parse_study(declared)
    truth = np.random.default_rng(3).integers(0, 3, (hostile.PEOPLE, hostile.PERIODS), np.uint8)
    sent: list[Message] = public_logs.published(study, {"work": truth}, SeededNoise(4))
    return sent
