"""Remembers on disk what is loaded, for the injector that follows one that died."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from pydantic import ValidationError

from towpath.atomic_write import write_private_file
from towpath.contracts.message import Model
from towpath.lab.proxy.recorded_conditions import RecordedConditions
from towpath.tasks import to_the_end

log = logging.getLogger(__name__)

MOST_NAMES = 10_000
"""Of rules whose versions are remembered; those used longest ago are forgotten."""


class RecordedRule(Model):
    """One version of a rule that was loaded."""

    rule: str
    version: int
    scopes: list[str]


class Recorded(Model):
    """Content of the file."""

    revision: int = 0
    """The newest that a scope was told."""
    versions: dict[str, int] = {}
    """Rule → newest version, also of those that are not loaded any more."""
    loaded: list[RecordedRule] = []
    links: dict[str, RecordedConditions] = {}
    """Site → how its link was before rules made it worse."""


class InjectorRecord:
    """The file. A failure to write it is only logged: rules end with their lease, recorded or not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = asyncio.Lock()

    async def read(self) -> Recorded:
        """Return what an earlier injector left; nothing when there is none or it cannot be read."""
        try:
            return Recorded.model_validate_json(await asyncio.to_thread(self._path.read_bytes))
        except FileNotFoundError:
            return Recorded()
        except (OSError, ValidationError) as error:
            log.error(
                "what an earlier injector loaded is not known, %s cannot be read: %s", self._path, error
            )
            return Recorded()

    async def write(self, recorded: Recorded) -> bool:
        """Put it on the disk. Return true if that went well."""
        versions = dict(list(recorded.versions.items())[-MOST_NAMES:])
        text = recorded.model_copy(update={"versions": versions}).model_dump_json()
        async with self._writing:
            try:
                # A successor would write the same part file.
                await to_the_end(asyncio.to_thread(write_private_file, self._path, text))
            except OSError as error:
                log.error("loaded rules were not recorded: %s", error)
                return False
        return True
