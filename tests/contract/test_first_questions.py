"""What a monitor asks before it forks: a question about each kind of release; it is answered."""

import pytest
from kit.kinds_of_releases import published

from stream_dp.services.monitor import public_program
from stream_dp.services.monitor.public_pages import public_pages
from stream_dp.services.monitor.public_state import read_state
from stream_dp.study.families import Kind

pytest.importorskip("fastapi")


@pytest.mark.parametrize("kind", list(Kind))
def test_forks_inherit_an_answer_of_every_release(kind, monkeypatch):
    log = published(kind)
    state = read_state(log, "")
    answer_of, answers = public_program.answer_of, []
    monkeypatch.setattr(
        public_program, "answer_of", lambda *asked: answers.append(answer_of(*asked))
    )
    public_program._ask_first(public_pages(state, lambda: log), state)
    releases = {one.certificate.release for one in state.public.published}
    assert [answer.data["status"] for answer in answers] == [200] * len(releases)
