"""Find the events of an input that repeat earlier ones.

A device that sends an event again, because its connection broke or it was started again, is stored twice. An
input may name the fields that identify an event. An event then repeats another one if that has the same
values there, and lies before it by at most a given number of serial numbers. Where a device says by MQTT 5
what it calls its events, this identifies them instead.

So the stream alone says what is a repeat. A checkpoint holds nothing of it, and a micro-batch that runs
again, at this site or another one, has the same events.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from towpath.contracts.data_plane import EVENT_ID_HEADER
from towpath.streams.decoding import MALFORMED
from towpath.streams.formats import ToJson, Unreadable

if TYPE_CHECKING:
    from natsrpy.js import JetStreamMessage

    from towpath.streams.passing import ChangedMessage

    Event: TypeAlias = JetStreamMessage | ChangedMessage

IDLE_S = 300.0
"""Time without an event after which identities are forgotten. Reading them once more costs less than keeping
them for a job that has few events, or has left."""

_DIGEST_BYTES = 16
"""Two events of one digest would be one event lost. At this size that never happens."""

_NULL = msgspec.Raw(b"null")


class Repeats:
    """The identities of an input's events, up to the serial number `position`.

    It knows only the newest event of each identity, so it cannot go back. See `begin`.
    """

    def __init__(self, identity: Sequence[str], within: int, to_json: ToJson = bytes) -> None:
        """`identity` are the fields that identify an event, `within` is how far back a repeat is known, and
        `to_json` reads an event."""
        self.position = 0
        self.used_at = time.monotonic()
        self._within = within
        self._to_json = to_json
        self._newest: dict[bytes, int] = {}
        """Digest of an identity → serial number of its newest event."""
        # Members have names of their own, because a field may be called like a keyword.
        names = {f"field_{n}": name for n, name in enumerate(dict.fromkeys(identity))}
        members = [(member, msgspec.Raw, _NULL) for member in names]
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Identity", members, rename=names)).decode

    def begin(self, after: int) -> int:
        """Prepare for the events that follow `after`.

        Returns the serial number after which earlier events, up to `after`, must go through `first_ones`
        before them.
        """
        if self.position > after:
            self._newest.clear()
            self.position = 0
        return max(self.position, after - self._within, 0)

    def first_ones(self, events: Sequence[Event]) -> list[Event]:
        """Return those of the next events that repeat none, and remember all of them."""
        found: list[Event] = []
        for event in events:
            identity, serial = self._identity(event), event.stream_sequence
            if identity is None:
                found.append(event)
                continue
            newest = self._newest.get(identity)
            if newest is None or serial - newest > self._within:
                found.append(event)
            self._newest[identity] = serial
        if events:
            self.position = events[-1].stream_sequence
        # Only now and then, because it looks at all of them.
        if len(self._newest) > self._within * 5 // 4:
            oldest = self.position - self._within
            self._newest = {each: serial for each, serial in self._newest.items() if serial > oldest}
        return found

    def _identity(self, event: Event) -> bytes | None:
        """Return the digest of an event's identity. None if it is no JSON object, or lacks one of the fields.

        Values are compared as they are written: numbers that differ in their last digit are two.
        """
        name = (event.headers or {}).get(EVENT_ID_HEADER)
        if name is not None:
            return _digest(event.subject.encode(), str(name).encode())
        try:
            values = [
                bytes(value) for value in msgspec.structs.astuple(self._decode(self._to_json(event.payload)))
            ]
        except (Unreadable, *MALFORMED):
            return None
        if b"null" in values:
            return None
        return _digest(*values)


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b",".join(parts), digest_size=_DIGEST_BYTES).digest()


_kept: dict[str, Repeats] = {}
_keeping = threading.Lock()


def repeats_of(run: str, identity: Sequence[str], within: int, to_json: ToJson = bytes) -> Repeats:
    """Return the process's one `Repeats` for a run of a source, kept between micro-batches."""
    now = time.monotonic()
    with _keeping:
        for idle in [each for each, repeats in _kept.items() if now - repeats.used_at > IDLE_S]:
            del _kept[idle]
        if run not in _kept:
            _kept[run] = Repeats(identity, within, to_json)
        _kept[run].used_at = now
        return _kept[run]
