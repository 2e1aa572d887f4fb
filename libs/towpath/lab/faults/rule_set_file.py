"""The file with the rules of a scope: those that carry them out read it again and again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.lab.faults.clock import real_time

if TYPE_CHECKING:
    from towpath.contracts.faults import RuleSet

log = logging.getLogger(__name__)


class RuleSetFile:
    """Reads the file again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._rules: RuleSet | None = None

    def rules(self) -> RuleSet | None:
        """Return the rules that hold now. None: there is no readable file, or its lease is over."""
        try:
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                self._seen, self._rules = seen, _parsed(self._path.read_bytes())
        except OSError:
            self._seen, self._rules = (), None
        return self._rules if self._rules is not None and real_time() < self._rules.expires_at else None


def _parsed(content: bytes) -> RuleSet | None:
    from pydantic import ValidationError  # Here, as most processes never have a rule.

    from towpath.contracts.faults import RuleSet

    try:
        return RuleSet.model_validate_json(content)
    except ValidationError as error:
        log.warning("rules are not readable: %s", error)
        return None
