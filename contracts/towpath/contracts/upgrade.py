"""Restart a site, so that it runs the version of Towpath that is installed on its machine by then."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from towpath.contracts.message import ROOT, Command, SiteName
from towpath.contracts.reply import Done


class RestartSite(Command[Done]):
    """Let a site's agent, server and engine end, and start again. Refused while jobs run there.

    `towpath upgrade` moves them away first. The site answers for itself again within seconds.
    """

    subject = f"{ROOT}.command.coordinator.restart-site"
    answer = Done
    example = {"id": "u1", "site": "jfk", "begun_at": "2026-01-01T00:00:00Z"}

    site: SiteName
    begun_at: datetime
    """When the agent began that is to end, as its heartbeat says. A repetition so ends no other."""
    in_place: bool = False
    """Jobs that run there stay, and their results pause until the engine is back."""


class RestartAgent(Command[Done]):
    """End the agent, with its server and engine. The supervisor of its machine starts it again."""

    subject = f"{ROOT}.command.{{site}}.restart-agent"
    answer = Done
    example = {"id": "u2", "site": "jfk", "begun_at": "2026-01-01T00:00:00Z"}

    site: SiteName
    begun_at: datetime
    """When the agent began that is to end. Any other answers, and goes on."""


UPGRADE_COMMANDS: tuple[type[Command[Any]], ...] = (RestartSite,)
"""Served by the coordinator."""

SITE_UPGRADE_COMMANDS: tuple[type[Command[Any]], ...] = (RestartAgent,)
