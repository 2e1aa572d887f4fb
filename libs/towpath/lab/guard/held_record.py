"""Records of a guard on disk: what it holds, and how far its rules have come. The next guard reads them.

Each thing is written down before it is held. So wherever a guard is killed, the record has all that is held.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from towpath.atomic_write import write_atomically
from towpath.contracts.faults import OnTarget, RuleAction
from towpath.contracts.message import Model
from towpath.lab.faults.rule_at_work import RuleKey
from towpath.lab.guard.process import HELD_SUFFIX
from towpath.processes.record import ProcessIdentity

FileT = TypeVar("FileT", bound=BaseModel)


class Held(Model):
    """One action of a rule that is held on its target."""

    key: RuleKey
    place: int
    """Which of the rule's actions it is."""
    target: OnTarget
    action: RuleAction
    processes: list[ProcessIdentity] = []
    """All that it was done to so far and that may live."""
    remembered: dict[str, Any] = {}
    """State of the target before, in the fault's own words."""


class RuleProgress(Model):
    """Progress of a rule, which only counts up: `once` is once, whatever happens to the guard."""

    key: RuleKey
    looked: int
    acted: int


class _HeldFile(Model):
    held: list[Held] = []


class _ProgressFile(Model):
    progress: list[RuleProgress] = []


class HeldRecord:
    """The file of what is held. There is none while nothing is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = {(each.key, each.place): each for each in _read(path, _HeldFile).held}

    def __len__(self) -> int:
        return len(self._held)

    def all(self) -> list[Held]:
        """Return what is held now."""
        return list(self._held.values())

    def get(self, key: RuleKey, place: int) -> Held | None:
        """Return what is held for an action."""
        return self._held.get((key, place))

    def remembered_by_others(self, target: OnTarget, fault: str) -> dict[str, Any]:
        """Return how a target was before other rules did the same to it, also those of other scopes."""
        files = {*self._path.parent.glob(f"*{HELD_SUFFIX}")} - {self._path}
        known = [*self.all(), *(each for file in files for each in HeldRecord(file).all())]
        alike = [each for each in known if each.target == target and each.action.fault == fault]
        return {name: value for each in alike for name, value in each.remembered.items()}

    def put(self, held: Held) -> None:
        """Write down what is to be held. Raises `OSError`, and then it must not be."""
        if self._held.get((held.key, held.place)) != held:
            self._save({**self._held, (held.key, held.place): held})

    def remove(self, held: Held) -> None:
        """Write down that it is not held any more. Raises `OSError`; then it is released once more."""
        self._save({place: each for place, each in self._held.items() if place != (held.key, held.place)})

    def _save(self, held: dict[tuple[RuleKey, int], Held]) -> None:
        _write(self._path, _HeldFile(held=list(held.values())) if held else None)
        self._held = held


class ProgressRecord:
    """The file of how far the rules have come that have acted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._progress = {each.key: each for each in _read(path, _ProgressFile).progress}

    def get(self, key: RuleKey) -> RuleProgress | None:
        """Return how far a rule had come when it last acted. None if it has not acted."""
        return self._progress.get(key)

    def put(self, progress: RuleProgress) -> None:
        """Write down that a rule is about to act. Raises `OSError`, and then it must not."""
        if self._progress.get(progress.key) != progress:
            self._save({**self._progress, progress.key: progress})

    def keep_only(self, loaded: set[RuleKey]) -> None:
        """Forget rules that are not loaded any more."""
        if not self._progress.keys() <= loaded:
            self._save({key: each for key, each in self._progress.items() if key in loaded})

    def _save(self, progress: dict[RuleKey, RuleProgress]) -> None:
        _write(self._path, _ProgressFile(progress=list(progress.values())) if progress else None)
        self._progress = progress


def _read(path: Path, kind: type[FileT]) -> FileT:
    with contextlib.suppress(FileNotFoundError, ValidationError):
        return kind.model_validate_json(path.read_bytes())
    return kind()


def _write(path: Path, content: BaseModel | None) -> None:
    """Write the file, or delete it when there is no content."""
    if content is None:
        path.unlink(missing_ok=True)
    else:
        # Not synced: what is held does not outlive the machine, either.
        write_atomically(path, content.model_dump_json(), durable=False)
