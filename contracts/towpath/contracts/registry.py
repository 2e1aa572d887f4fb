"""Back the registry up, bring a copy back, and make it again from what sites report."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any, Self

from pydantic import Field, model_validator

from towpath.contracts.message import ROOT, Command, JobName, Model, SiteName

_COORDINATOR = f"{ROOT}.command.coordinator"

MAX_COPY_CHARACTERS = 6_000_000
"""Longest copy of a registry: some ten thousand jobs. A message holds no more."""


class RegistryCopy(Model):
    """All that the registry has, as of one moment."""

    written_at: datetime
    jobs: int = Field(ge=0)
    content: str = Field(max_length=MAX_COPY_CHARACTERS)
    """In base64: a JSON array of Redis commands that write it, compressed by zlib."""

    @model_validator(mode="after")
    def _decodes(self) -> Self:
        try:
            self.decoded()
        except binascii.Error as error:
            raise ValueError(f"the content is not base64: {error}") from error
        return self

    def decoded(self) -> bytes:
        """Return the compressed commands."""
        return base64.b64decode(self.content, validate=True)


class BackupRegistry(Command[RegistryCopy]):
    """A copy of the registry: jobs, pipelines, plans, uplinks, and the latest operations."""

    subject = f"{_COORDINATOR}.backup-registry"
    answer = RegistryCopy
    example = {"id": "r1"}


class RestoredJob(Model):
    """A job that the registry takes from a site, because the site has it under a later epoch."""

    job: JobName
    site: SiteName
    epoch: int
    known: int | None = None
    """The registry's highest epoch of the job before. Null: it did not know the job."""
    adopted: bool = False
    note: str = ""
    """Why it was not adopted."""


class RegistryState(Model):
    """The registry after a restore or a rebuild."""

    jobs: int = Field(ge=0)
    behind: list[RestoredJob] = []
    """Jobs that sites have, or had, under a later epoch than the registry knew. It touches none of those that
    it has not adopted."""


class RestoreRegistry(RegistryCopy, Command[RegistryState]):
    """Replace the registry by a copy. Refused as `busy` while an operation or an apply is under way.

    Jobs that have moved since are left where they run: `RebuildRegistry` adopts them.
    """

    subject = f"{_COORDINATOR}.restore-registry"
    answer = RegistryState
    example = {
        "id": "r2",
        "written_at": "2026-11-27T12:00:00Z",
        "jobs": 0,
        "content": "eAGLjgUAARUAuQ==",
    }


class RebuildRegistry(Command[RegistryState]):
    """Adopt all jobs that sites have under a later epoch than the registry knows, as the sites describe them.

    It brings back what was lost with the registry, or happened after the copy that was restored.
    """

    subject = f"{_COORDINATOR}.rebuild-registry"
    answer = RegistryState
    example = {"id": "r3", "dry_run": True}

    dry_run: bool = False
    """Only list them."""


REGISTRY_COMMANDS: tuple[type[Command[Any]], ...] = (BackupRegistry, RestoreRegistry, RebuildRegistry)
