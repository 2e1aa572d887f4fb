"""The record of a bridge's session at the broker: its name and its subscriptions."""

from __future__ import annotations

import secrets
import threading
from datetime import datetime
from pathlib import Path

from pydantic import Field, ValidationError

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.contracts.message import Model, now


class BridgeRecord(Model):
    """Content of the file."""

    session: str = Field(default_factory=lambda: secrets.token_hex(4))
    """It changes when the broker begins a new session, because packet ids then begin again."""
    filters: list[str] = []
    """Present subscriptions, and those that were about to be made."""
    since: datetime = Field(default_factory=now)
    """Start of the site's first bridge. Older results had other subscribers."""


class SessionFile:
    """The record on disk, replaced whole or not at all. Blocks for a moment. Threads may call it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()

    def load(self) -> BridgeRecord:
        """Return the record. If there is none, save and return a new one."""
        with self._lock:
            try:
                return BridgeRecord.from_json(self._path.read_bytes())
            except (FileNotFoundError, ValidationError):
                return self.save(BridgeRecord())

    def save(self, record: BridgeRecord) -> BridgeRecord:
        """Save the record and return it. It is on the disk then."""
        with self._lock:
            make_private_directory(self._path.parent)
            write_private_file(self._path, record.model_dump_json())
            return record

    def renew(self, filters: list[str] | None = None) -> BridgeRecord:
        """Begin a new session. Messages stored before are then not compared with new ones."""
        with self._lock:
            old = self.load()
            return self.save(BridgeRecord(filters=filters or old.filters, since=old.since))
