"""Which key signs, and the journal entry by which another takes over. Does no input or output."""

from __future__ import annotations

from collections.abc import Sequence

from stream_dp import __version__
from stream_dp.errors import UserError
from stream_dp.log.message import Message, build_message, message_records
from stream_dp.log.signing import SigningKey
from stream_dp.release.signatures import KEY_TYPE
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES

from ..journal import journal
from ..journal.journal import Entry
from ..journal.journal_heads import KeyHead, head_of
from ..journal.journal_parts import entry_parts


def key_entry(
    entries: Sequence[Entry],
    study: Study,
    signer: SigningKey | None,
    before: SigningKey | None,
) -> Message | None:
    """The entry that names a new key; None where the journal's last key signs on.

    signer: the declared key.
    before: the key that it takes over from.

    Raises UserError where the journal's key is neither.
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
    if before is None or before.public != named:
        raise UserError(
            f"run.signing: the key is {signer.public}, but this study is signed with {named}; name"
            " that one, or as run.signing_before if the other is to take over"
        )
    hashes = [digest for entry in entries for digest in entry.published]
    return _key_change(
        entries[-1].message,
        study,
        index=len(hashes),
        previous=hashes[-1],
        signer=signer,
        before_signer=before,
    )


def _key_change(
    before: Message,
    study: Study,
    *,
    index: int,
    previous: str,
    signer: SigningKey,
    before_signer: SigningKey,
) -> Message:
    """The entry after `before` that publishes the key that signs from then on.

    index, previous: of the public message, and the hash of the one before it.
    signer: the new key. before_signer: the key so far, which signs the message.
    """
    manifest = {
        "type": KEY_TYPE,
        "study_hash": study.hash,
        "signer": signer.public,
        "code_version": __version__,
    }
    public = build_message(index, previous, manifest, [])
    records = message_records(
        public,
        RELEASES,
        kind=KEY_TYPE,
        source=f"stream-dp/{study.name}",
        content="application/json",
        time=None,
        signer=before_signer,
    )
    head = KeyHead(
        number=head_of(before).number,
        signer=signer.public,
        charges=[],
        public=[public.hash],
        code_version=__version__,
    )
    return journal.next_message(before, head, entry_parts(records, {}))
