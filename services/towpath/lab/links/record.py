"""Remembers on disk how bad every link is, so that a process that dies does not mend a link."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from towpath.atomic_write import write_private_file
from towpath.contracts.links import LinkConditions
from towpath.contracts.message import Model, now
from towpath.lab.proxy.recorded_conditions import RecordedConditions

log = logging.getLogger(__name__)


class _File(Model):
    links: dict[str, RecordedConditions]


class LinkRecord:
    """The file with the conditions of all links."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def write(self, links: Mapping[str, RecordedConditions]) -> None:
        """Keep those of `links` that are not perfect, on the disk when this returns. Raises `OSError`."""
        worse = {site: kept for site, kept in links.items() if not kept.conditions.perfect}
        text = _File(links=worse).model_dump_json(indent=2)
        await asyncio.to_thread(write_private_file, self._path, text)

    async def read(self) -> dict[str, LinkConditions]:
        """Return what still holds of what was kept, by site: perfect conditions where the time is over.

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
