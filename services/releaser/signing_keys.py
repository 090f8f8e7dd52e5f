"""The key of signatures, and the journal entry of a new key. Does no input or output."""

from __future__ import annotations

from collections.abc import Sequence

from stream_dp import __version__
from stream_dp.errors import UserError
from stream_dp.log.message import Message, build_message
from stream_dp.log.signing import SigningKey
from stream_dp.release.signatures import KEY_TYPE
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES

from ..journal import journal
from ..journal.journal import Entry
from ..journal.journal_heads import KeyHead
from ..journal.journal_parts import entry_parts, study_records


def key_entry(
    entries: Sequence[Entry],
    study: Study,
    signer: SigningKey | None,
    replaced: SigningKey | None,
) -> Message | None:
    """The entry that names a new key; None if the journal's last key stays.

    signer: the declared key.
    replaced: the key before `signer`.

    Raises UserError if the journal's key is neither of them.
    """
    named = next((e.signer for e in reversed(entries) if e.signer), None)
    if named is None:
        if signer is None:
            return None
        raise UserError(
            "run.signing: this study began without signatures and goes on without; remove the key,"
            " or begin a new study with new logs"
        )
    if signer is None:
        raise UserError(f"run.signing: this study is signed with {named}; declare where it is")
    if signer.public == named:
        return None
    if replaced is None or replaced.public != named:
        raise UserError(
            f"run.signing: the key is {signer.public}, but this study is signed with {named}; name"
            " that one, or as run.signing_before if the other is to take over"
        )
    hashes = [digest for entry in entries for digest in entry.published]
    manifest = {
        "type": KEY_TYPE,
        "study_hash": study.hash,
        "signer": signer.public,
        "code_version": __version__,
    }
    public = build_message(len(hashes), hashes[-1], manifest, [])
    records = study_records(public, RELEASES, study, KEY_TYPE, signer=replaced)
    head = KeyHead(
        number=entries[-1].number,
        signer=signer.public,
        charges=[],
        public=[public.hash],
        code_version=__version__,
    )
    return journal.next_message(entries[-1].message, head, entry_parts(records, {}))
