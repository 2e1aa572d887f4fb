"""What a bridge must remember about its session at the broker: a name for it, and the subscriptions."""

from __future__ import annotations

import secrets
import threading
from datetime import datetime
from pathlib import Path

from pydantic import Field, ValidationError

from towpath.contracts.message import Model, now
from towpath.mesh.private_file import make_private_directory, write_private_file


class BridgeRecord(Model):
    """The content of the file."""

    session: str = Field(default_factory=lambda: secrets.token_hex(4))
    """Another one whenever the broker begins a new session: packet ids begin anew as well."""
    filters: list[str] = []
    """What is subscribed to, or was about to be."""
    since: datetime = Field(default_factory=now)
    """When the first bridge of the site began: results that are older had other subscribers."""


class SessionFile:
    """The record on disk, replaced whole or not at all. Blocks for a moment; may be called from threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()

    def load(self) -> BridgeRecord:
        """The record; a new one, saved, when there is none."""
        with self._lock:
            try:
                return BridgeRecord.model_validate_json(self._path.read_bytes())
            except (FileNotFoundError, ValidationError):
                return self.save(BridgeRecord())

    def save(self, record: BridgeRecord) -> BridgeRecord:
        """On the disk when this returns."""
        with self._lock:
            make_private_directory(self._path.parent)
            write_private_file(self._path, record.model_dump_json())
            return record

    def renew(self, filters: list[str] | None = None) -> BridgeRecord:
        """Begin a new session; what was stored before has nothing to do with what comes."""
        with self._lock:
            old = self.load()
            return self.save(BridgeRecord(filters=filters or old.filters, since=old.since))
