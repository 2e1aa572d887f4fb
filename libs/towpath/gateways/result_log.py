"""The durable numbered log of a gateway's results: store and forward.

The log is a directory of segments. A segment is a file of frames, named by its first number. A frame is a
header (length, checksum, number) and the result's bytes. `log.json` says which numbers need not be sent any
more, because they were delivered or dropped.

- A result gets its number when it is appended. Numbers begin at 1 and never repeat: none is sent before its
  frame is on the disk (`sync`), and a frame that a power cut tore was therefore never sent.
- Beyond the budget the oldest segment goes. Its results that were not delivered are counted as dropped. The
  count is on the disk before the segment is deleted, so a kill in between neither loses nor doubles it.
- Deliveries are written down now and then (`save`). A kill in between makes some results come twice, with
  the number they had before: the receiver counts them once, see `completeness.py`.

Invariant: each number up to `last` is in a readable frame, or in the set of those not to be sent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from io import FileIO
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

import msgspec

from towpath.atomic_write import make_private_directory, sync_directory, write_atomically
from towpath.number_set import NumberSet

SEGMENTS = 16
"""Segments in the budget: a full log drops a sixteenth of it at once."""

_HEADER = struct.Struct(">IIQ")
_STATE, _RESERVE = "log.json", "reserve"

RESERVE_BYTES = 16 * 1024
"""Place for the state on a full disk: a thousand ranges of numbers."""


class LogState(msgspec.Struct):
    """Content of `log.json`."""

    identity: str
    """Changes if the disk is lost: numbers then begin again."""
    dropped: int = 0
    settled: list[tuple[int, int]] = []
    """Ranges of numbers that are not to be sent any more."""


class ResultLog:
    """The log in a directory. One process at a time has it. Every method may block for a moment."""

    def __init__(self, directory: Path, *, budget_bytes: int) -> None:
        self._directory = make_private_directory(directory)
        self._budget = budget_bytes
        self._segment_bytes = max(1, budget_bytes // SEGMENTS)
        self._saved = self._load()
        self._settled = NumberSet(self._saved.settled)
        self.dropped = self._saved.dropped
        """Number of results that were dropped before they were delivered."""
        self._sizes = {int(path.stem): path.stat().st_size for path in sorted(directory.glob("*.log"))}
        self._hints: dict[int, tuple[int, int]] = {}
        """First number of a segment → a number in it and the place of its frame."""
        self.last = 0
        """Number of the newest result; 0 if there was none."""
        self._file: FileIO = self._open_newest()
        self._dirty = False
        self.save()

    def _load(self) -> LogState:
        path = self._directory / _STATE
        for scratch in self._directory.glob(".*.tmp"):
            scratch.unlink()
        if path.exists():
            return msgspec.json.decode(path.read_bytes(), type=LogState)
        state = LogState(token_hex(6))
        write_atomically(path, msgspec.json.encode(state))
        return state

    def _open_newest(self) -> FileIO:
        """Cut a torn frame off the newest segment, or begin the first one. Return the file to append to."""
        settled_last = max((last for _, last in self._settled), default=0)
        first = max(self._sizes, default=settled_last + 1)
        path = self._path(first)
        intact, self.last = 0, first - 1
        if path.exists():
            for number, end in self._frames(first):
                self.last, intact = number, end
        file = path.open("ab", buffering=0)
        file.truncate(intact)
        self._sizes[first] = intact
        if self.last < settled_last:  # The newest frames were lost after they had been delivered.
            file.close()
            self.last = settled_last
            file = self._begin_segment()
        sync_directory(self._directory)
        return file

    @property
    def identity(self) -> str:
        """Random name of this log. A number identifies a result together with it."""
        return self._saved.identity

    @property
    def bytes(self) -> int:
        """Size on the disk."""
        return sum(self._sizes.values())

    def waiting(self, after: int = 0, through: int | None = None) -> int:
        """Return how many results are still to be delivered, of all or of those beyond `after`."""
        end = self.last if through is None else through
        return sum(last - first + 1 for first, last in self._settled.missing(after + 1, end))

    def append(self, results: Sequence[bytes]) -> None:
        """Number results and write them. They survive SIGKILL when this returns, a power cut after `sync`.

        Raises `OSError` if the disk is full; then none of them is in the log.
        """
        if self._sizes[max(self._sizes)] >= self._segment_bytes:
            self._roll()
        before = self._sizes[max(self._sizes)]  # The file's own place is behind what failed attempts wrote.
        frames = b"".join(_frame(self.last + 1 + n, each) for n, each in enumerate(results))
        try:
            if self._file.write(frames) != len(frames):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._file.name)
        except OSError:
            self._file.truncate(before)
            raise
        self.last += len(results)
        self._dirty = True
        self._sizes[max(self._sizes)] += len(frames)
        with contextlib.suppress(OSError):  # What is kept must not be kept again. The next call drops more.
            while self.bytes > self._budget and len(self._sizes) > 1:
                self._drop_oldest()

    def sync(self) -> None:
        """Return when all results are on the disk. Call it before any of them is sent."""
        if self._dirty:
            os.fsync(self._file.fileno())
            self._dirty = False

    def read(self, after: int, most: int, through: int | None = None) -> list[tuple[int, bytes]]:
        """Return up to `most` results beyond the number `after` that are still to be delivered.

        `through` is the last number that counts, if given.
        """
        found: list[tuple[int, bytes]] = []
        last = self.last if through is None else min(self.last, through)
        number = self._settled.missing_from(after + 1)
        while number <= last and len(found) < most:
            payload = self._payload(number)
            if payload is not None:
                found.append((number, payload))
            number = self._settled.missing_from(number + 1)
        return found

    def newest(self) -> bytes | None:
        """Return the newest result, delivered or not; None if it is not on the disk any more."""
        return self._payload(self.last) if self.last >= min(self._sizes) else None

    def delivered(self, number: int) -> None:
        """Note that a result need not be sent again. `save` writes it down."""
        self._settled.add(number)

    def save(self) -> None:
        """Write down what was delivered, and delete the segments that are no longer needed."""
        state = LogState(self.identity, self.dropped, [*self._settled])
        if state != self._saved:
            self.sync()  # A number that counts as settled must not be given again after a power cut.
            self._write(state)
            self._saved = state
        for first, last in self._closed_segments():
            if self._settled.covers(first, last):
                self._delete(first)

    def _write(self, state: LogState) -> None:
        """Write the state, on a full disk with the reserve's place: else no segment could be deleted."""
        path, reserve = self._directory / _STATE, self._directory / _RESERVE
        content = msgspec.json.encode(state)
        try:
            write_atomically(path, content)
        except OSError:
            reserve.unlink(missing_ok=True)
            write_atomically(path, content)
        if not reserve.exists():
            with contextlib.suppress(OSError):
                write_atomically(reserve, bytes(RESERVE_BYTES), durable=False)

    def close(self) -> None:
        """Write everything down and release the file."""
        self.save()
        self.sync()
        self._file.close()

    def _closed_segments(self) -> list[tuple[int, int]]:
        firsts = sorted(self._sizes)
        return [(first, after - 1) for first, after in pairwise(firsts)]

    def _drop_oldest(self) -> None:
        first, last = self._closed_segments()[0]
        self._give_up(first, last)
        self.save()

    def _give_up(self, first: int, last: int) -> None:
        self.dropped += sum(b - a + 1 for a, b in self._settled.missing(first, last))
        self._settled.add(first, last)

    def _roll(self) -> None:
        self.sync()
        former, self._file = self._file, self._begin_segment()
        former.close()
        sync_directory(self._directory)

    def _begin_segment(self) -> FileIO:
        file = self._path(self.last + 1).open("ab", buffering=0)
        self._sizes[self.last + 1] = 0
        return file

    def _delete(self, first: int) -> None:
        self._path(first).unlink(missing_ok=True)
        del self._sizes[first]
        self._hints.pop(first, None)

    def _path(self, first: int) -> Path:
        return self._directory / f"{first:020d}.log"

    def _payload(self, number: int) -> bytes | None:
        """Return a result. If its frame is damaged, give up the rest of its segment and return None."""
        first = max(each for each in self._sizes if each <= number)
        at, place = self._hints.get(first, (first, 0))
        if at > number:
            at, place = first, 0
        with self._path(first).open("rb") as file:
            file.seek(place)
            while (frame := _read_frame(file, at)) is not None:
                end = place + _HEADER.size + len(frame)
                if at == number:
                    self._hints[first] = (number + 1, end)
                    return frame
                at, place = at + 1, end
        last = next((last for begin, last in self._closed_segments() if begin == first), self.last)
        self._give_up(at, last)
        return None

    def _frames(self, first: int) -> Iterator[tuple[int, int]]:
        """Yield number and end of each intact frame of a segment, up to the first damaged one."""
        number, end = first, 0
        with self._path(first).open("rb") as file:
            while (frame := _read_frame(file, number)) is not None:
                end += _HEADER.size + len(frame)
                yield number, end
                number += 1


def _frame(number: int, payload: bytes) -> bytes:
    return _HEADER.pack(len(payload), _checksum(number, payload), number) + payload


def _read_frame(file: BinaryIO, number: int) -> bytes | None:
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    length, checksum, found = _HEADER.unpack(header)
    payload = file.read(length)
    intact = found == number and len(payload) == length and _checksum(number, payload) == checksum
    return payload if intact else None


def _checksum(number: int, payload: bytes) -> int:
    return zlib.crc32(payload, number & 0xFFFFFFFF)
