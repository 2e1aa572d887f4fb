"""The coordinators of a mesh: one leads, and the others are spares."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from towpath.contracts.message import ROOT, Command, Event, Model

_NAME = r"^coordinator(-[0-9]+)?$"


class Coordinators(Model):
    """The coordinator that leads, and its spares."""

    leader: str = Field(pattern=_NAME)
    """Name of its process."""
    term: int = Field(ge=1)
    """Number of its term. Sites obey no coordinator of an earlier one."""
    since: datetime
    """When its term began, by its clock."""
    spares: list[str] = []
    """Processes that would take over, as far as they have asked within the last seconds."""


class ShowCoordinators(Command[Coordinators]):
    """Ask which coordinator leads. Spares ask all the time: one takes over when no answer comes."""

    subject = f"{ROOT}.command.coordinator.show-coordinators"
    answer = Coordinators
    example = {"id": "c1"}

    spare: str | None = Field(default=None, pattern=_NAME)
    """The spare that asks; null: it is none."""


class CoordinatorLeads(Event):
    """A coordinator has begun a term."""

    subject = f"{ROOT}.event.coordinator.leads"
    example = {"at": "2026-11-27T12:00:00Z", "coordinator": "coordinator-2", "term": 7}

    coordinator: str = Field(pattern=_NAME)
    term: int = Field(ge=1)


COORDINATORS_COMMANDS: tuple[type[Command[Any]], ...] = (ShowCoordinators,)
