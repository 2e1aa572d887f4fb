"""The file of a scope's rules, as its guard reads it."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import ValidationError

from towpath.contracts.faults import LoadedRule, OnTarget, RuleSet, TargetKind
from towpath.lab.faults.clock import real_time

log = logging.getLogger(__name__)

GUARDED = frozenset({TargetKind.PROCESS, TargetKind.MACHINE, TargetKind.DISK, TargetKind.CONTAINER})
"""Targets that a guard takes care of. Links are their service's, clocks are set by the processes."""


class RuleFile:
    """Reads the file again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        """When the file read last was written, and which one it is."""
        self._set: RuleSet | None = None

    def rules(self) -> list[LoadedRule]:
        """The rules for a guard that hold now: none when there is no file, or its lease is over."""
        self._look()
        if self._set is None or not self.holds:
            return []
        return [loaded for loaded in self._set.rules if is_guarded(loaded, self._set.scope)]

    @property
    def holds(self) -> bool:
        """Whether there was a file of rules at the last look, and its lease is not over."""
        return self._set is not None and real_time() < self._set.expires_at

    def shared(self, key: str) -> float | None:
        """What is known of the whole mesh, such as `cpu_percent(jfk)`."""
        return self._set.shared.get(key) if self._set is not None else None

    def _look(self) -> None:
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_ino)
            if seen != self._seen:
                self._set = RuleSet.model_validate_json(self._path.read_bytes())
                self._seen = seen
        except FileNotFoundError:
            self._set = self._seen = None
        except (OSError, ValidationError) as error:
            log.error("no rules: %s cannot be read: %s", self._path, error)
            self._set = self._seen = None


def is_guarded(loaded: LoadedRule, scope: str) -> bool:
    """Whether the guard of a scope carries the rule out."""
    event, site = loaded.rule.event, loaded.rule.where.site
    return isinstance(event, OnTarget) and event.target in GUARDED and site in (None, scope)
