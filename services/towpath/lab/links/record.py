"""Remembers on disk how bad every link is, so that a process that dies does not mend a link."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from towpath.atomic_write import write_private_file
from towpath.contracts.links import LinkConditions
from towpath.contracts.message import Model, now

log = logging.getLogger(__name__)


class Kept(Model):
    """The conditions of one link."""

    conditions: LinkConditions
    until: datetime | None
    """When they end by themselves; null: never."""

    def remaining(self, at: datetime) -> LinkConditions:
        """What still holds at a moment, for the time that is left."""
        if self.until is None:
            return self.conditions
        left_s = (self.until - at).total_seconds()
        if left_s <= 0:
            return LinkConditions()
        # A clock that was set back must not stretch the time.
        left_s = min(left_s, self.conditions.for_s or left_s)
        return self.conditions.model_copy(update={"for_s": left_s})


class _File(Model):
    links: dict[str, Kept]


class Record:
    """The file with the conditions of all links."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def write(self, links: Mapping[str, Kept]) -> None:
        """Keep those of `links` that are not perfect, on the disk when this returns. Raises `OSError`."""
        worse = {site: kept for site, kept in links.items() if not kept.conditions.perfect}
        text = _File(links=worse).model_dump_json(indent=2)
        await asyncio.to_thread(write_private_file, self._path, text)

    async def read(self) -> dict[str, LinkConditions]:
        """What still holds of what was kept, by site: perfect conditions where the time is over.

        Nothing, when nothing was kept or it cannot be read.
        """
        try:
            text = await asyncio.to_thread(self._path.read_bytes)
            kept = _File.model_validate_json(text).links
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            log.error("all links are perfect, because %s cannot be read: %s", self._path, error)
            return {}
        return {site: entry.remaining(now()) for site, entry in kept.items()}
