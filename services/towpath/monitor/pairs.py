"""Pair the results of a job's two runs by message id, and compare each pair.

For a result that waits for its counterpart, only a digest and its place are kept. The digest is made of the
result in a normal form, so that two results with equal digests need no second look. The normal form leaves
out what may differ between two runs (site and epoch). It rounds floating-point numbers, but to more digits
than two orders of addition agree in. Results with different digests are only suspected to differ.
`difference` compares them as they are.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TOLERANCE = 1e-9
"""Relative tolerance. Sums of doubles depend on the order of addition, and so on the cuts into batches."""

OF_THE_RUN = ("site", "epoch")
"""Fields that name the run that computed a result."""

MOST_WAITING = 200_000
"""Results of one run that wait for their counterparts, about 60 MB. Beyond it the oldest are given up."""


class UnpairedResult(NamedTuple):
    """A result that was seen in one run only."""

    serial: int
    """Its place in its stream."""
    digest: bytes


class Suspicion(NamedTuple):
    """Two results of one identity with different digests."""

    identity: str
    source_serial: int
    target_serial: int


class Difference(NamedTuple):
    """A difference between two results of one identity."""

    path: str
    """Path of the field, for example `values.mean_delay`."""
    source: Any
    target: Any


@dataclass
class Pairs:
    """Results of each run that were not seen in the other yet."""

    most_waiting: int = MOST_WAITING
    compared: int = 0
    """Pairs so far."""
    _source: dict[str, UnpairedResult] = field(default_factory=dict)
    _target: dict[str, UnpairedResult] = field(default_factory=dict)
    _newest: tuple[str, str] = ("", "")
    """Identities of the newest results of source and target."""
    _given_up: int | None = None
    """Place of the first result of the target that can no longer be paired."""

    def from_source(self, identity: str, serial: int, body: bytes) -> Suspicion | None:
        """Take a result of the source. Return a suspicion if the target's differs."""
        mine, other = UnpairedResult(serial, digest(body)), self._target.pop(identity, None)
        self._newest = (identity, self._newest[1])
        if other is not None:
            return self._pair(identity, mine, other)
        self._source[identity] = mine
        if len(self._source) > self.most_waiting:
            del self._source[next(iter(self._source))]
        return None

    def from_target(self, identity: str, serial: int, body: bytes) -> Suspicion | None:
        """Take a result of the target. Return a suspicion if the source's differs."""
        mine, other = UnpairedResult(serial, digest(body)), self._source.pop(identity, None)
        self._newest = (self._newest[0], identity)
        if other is not None:
            return self._pair(identity, other, mine)
        self._target[identity] = mine
        if len(self._target) > self.most_waiting:
            self.give_up(self._target.pop(next(iter(self._target))).serial)
        return None

    @property
    def level(self) -> bool:
        """True if each run has the newest result of the other, if there is one."""
        source, target = self._newest
        return source not in self._source and target not in self._target

    def give_up(self, serial: int) -> None:
        """Note that the target's message at this place will have no counterpart."""
        if self._given_up is None or serial < self._given_up:
            self._given_up = serial

    def target_covered(self, last: int) -> int:
        """Return the place, at most `last`, up to which the source has everything of the target."""
        waiting = next(iter(self._target.values()), None)
        ends = [waiting.serial - 1] if waiting is not None else []
        ends += [self._given_up - 1] if self._given_up is not None else []
        return min([last, *ends])

    def _pair(self, identity: str, source: UnpairedResult, target: UnpairedResult) -> Suspicion | None:
        self.compared += 1
        if source.digest == target.digest:
            return None
        return Suspicion(identity, source.serial, target.serial)


def digest(body: bytes) -> bytes:
    """Return the digest of a result in its normal form, or of the bytes if they are not a JSON object."""
    try:
        parsed = _of_any_run(json.loads(body, parse_float=_rounded))
        body = json.dumps(parsed, sort_keys=True).encode()
    except ValueError:
        pass  # Compared as it is.
    return hashlib.blake2b(body, digest_size=16).digest()


def difference(source: bytes, target: bytes) -> Difference | None:
    """Return where two results differ. None if they are equal within the tolerance."""
    try:
        ours, theirs = _of_any_run(json.loads(source)), _of_any_run(json.loads(target))
    except ValueError:
        return None if source == target else Difference("", _text(source), _text(target))
    return _first_difference("", ours, theirs)


def _of_any_run(result: Any) -> Any:
    if not isinstance(result, dict):
        return result
    return {name: value for name, value in result.items() if name not in OF_THE_RUN}


def _rounded(text: str) -> str:
    return f"{float(text):.10g}"


def _text(body: bytes) -> str:
    return body[:200].decode(errors="replace")


def _first_difference(path: str, source: Any, target: Any) -> Difference | None:
    if isinstance(source, dict) and isinstance(target, dict):
        steps = [(name, source.get(name), target.get(name)) for name in {**source, **target}]
    elif isinstance(source, list) and isinstance(target, list) and len(source) == len(target):
        steps = [(str(i), ours, theirs) for i, (ours, theirs) in enumerate(zip(source, target, strict=True))]
    else:
        return None if _equal(source, target) else Difference(path, source, target)
    for name, ours, theirs in steps:
        found = _first_difference(f"{path}.{name}" if path else name, ours, theirs)
        if found is not None:
            return found
    return None


def _equal(source: Any, target: Any) -> bool:
    if isinstance(source, bool) or isinstance(target, bool):
        return source is target
    if isinstance(source, int | float) and isinstance(target, int | float):
        if isinstance(source, int) and isinstance(target, int):
            return source == target
        return math.isclose(source, target, rel_tol=TOLERANCE, abs_tol=TOLERANCE * 1e-3)
    return type(source) is type(target) and source == target
