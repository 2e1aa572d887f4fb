"""Requests of a gateway on its disk, with their answers: a repeated request does nothing twice.

A request is written down before the broker gets its acknowledgement, and its answer before it is sent. So a
gateway that is killed at any line finds at its next start the requests that it had begun, and carries them
out again: every action may be repeated. Of answered requests the last `KEPT` are remembered.

Reading is not written down, as it changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from towpath.atomic_write import make_private_directory, write_atomically
from towpath.contracts.gateway import Code, Problem, Request
from towpath.gateways.control import Address
from towpath.gateways.refusal import Refusal

KEPT = 256
"""Answered requests that are remembered: about 100 kB on the disk."""


class Entry(msgspec.Struct, omit_defaults=True):
    """A request on the disk."""

    number: int
    """Order in which requests came."""
    topic: str
    request: Request
    code: int | None = None
    """Response code; None until there is an answer."""
    body: Any = None

    @property
    def is_answered(self) -> bool:
        """True if the answer is known."""
        return self.code is not None


class RequestJournal:
    """The requests in a directory, a file each. Blocks for a moment."""

    def __init__(self, directory: Path) -> None:
        self._directory = make_private_directory(directory)
        for scratch in directory.glob(".*.tmp"):
            scratch.unlink()
        self._entries: dict[str, Entry] = {}
        for entry in sorted(self._read(), key=lambda entry: entry.number):
            self._entries[entry.request.request_id] = entry
        self._last = max((entry.number for entry in self._entries.values()), default=0)

    def _read(self) -> Iterator[Entry]:
        for path in self._directory.glob("*.json"):
            with contextlib.suppress(msgspec.MsgspecError):
                yield msgspec.json.decode(path.read_bytes(), type=Entry)

    def known(self, address: Address, request: Request) -> Entry | None:
        """Return the entry of a request that came before, or None.

        Raises `Refusal` (409) if its identifier belongs to another request.
        """
        entry = self._entries.get(request.request_id)
        if entry is None:
            return None
        if (entry.topic, entry.request.body) != (address.topic, request.body):
            problem = Problem("another request has this identifier", "request_ID", request.request_id)
            raise Refusal(Code.CONFLICT, problem)
        return entry

    def begin(self, address: Address, request: Request) -> Entry:
        """Write a new request down. It is on the disk when this returns."""
        self._last += 1
        entry = Entry(self._last, address.topic, request)
        self._write(entry)
        self._entries[request.request_id] = entry
        return entry

    def answer(self, entry: Entry, code: int, body: Any) -> None:
        """Write the answer to a request down, and forget the oldest answered ones."""
        entry.code, entry.body = code, body
        self._write(entry)
        answered = [each for each in self._entries.values() if each.is_answered]
        for old in answered[: max(0, len(answered) - KEPT)]:
            self.forget(old)

    def forget(self, entry: Entry) -> None:
        """Forget a request: a repetition is a new one."""
        self._entries.pop(entry.request.request_id, None)
        self._path(entry).unlink(missing_ok=True)

    def unanswered(self) -> list[Entry]:
        """Return the requests that a former run of the gateway had begun, oldest first."""
        return [entry for entry in self._entries.values() if not entry.is_answered]

    def _write(self, entry: Entry) -> None:
        write_atomically(self._path(entry), msgspec.json.encode(entry), mode=0o600)

    def _path(self, entry: Entry) -> Path:
        # A hash, as identifiers may differ in case alone, and file systems may not.
        return self._directory / f"{hashlib.sha256(entry.request.request_id.encode()).hexdigest()[:32]}.json"
