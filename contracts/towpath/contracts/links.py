"""Links between sites and hub as a mesh emulates them: how good each is, and commands to change that."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from towpath.contracts.message import ROOT, Command, Event, Model, SiteName

_LINKS = f"{ROOT}.command.links"

LONGEST_DELAY_MS = 60_000.0
"""A minute: beyond it no deadline of a mesh is kept, and `cut` says better what is meant."""

LONGEST_S = 7 * 24 * 3600.0
"""A week."""

DEFAULT_RESEND_MS = 200.0
"""Least time after which TCP sends a lost packet again, if nothing tells it earlier."""

SHORTEST_RESET_S = 0.1
"""Connections that live shorter carry nothing: `cut` says better what is meant."""


class OneWay(StrEnum):
    """A direction in which nothing passes, while all else does."""

    TO_HUB = "to_hub"
    """From the site to the hub and to Redis."""
    TO_SITE = "to_site"
    """From the hub and from Redis to the site."""
    FROM_REDIS = "from_redis"
    """From Redis to the site."""


class LinkConditions(Model):
    """Conditions of a link. The default is a link that passes everything as fast as it can."""

    cut: bool = False
    """Nothing passes in either direction, and no one is told, as when a cable is pulled: connections stay
    open, new ones are accepted and lead nowhere. When the cut ends, the connections that lived through
    it are closed, so that both ends connect again."""
    # Left out when unused: the version before has no such field.
    cut_only: OneWay | None = Field(default=None, exclude_if=lambda value: value is None)
    """Only there nothing passes: questions arrive, say, and answers do not. Connections are those of the
    link's emulation, which acknowledges what it holds back. When it ends, they are closed as after a cut."""
    for_s: float | None = Field(default=None, gt=0, le=LONGEST_S, allow_inf_nan=False)
    """Then the link restores itself, seconds; null: it stays so until it is told otherwise."""
    delay_ms: float = Field(default=0.0, ge=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """Time in one direction, milliseconds: a round trip takes twice as long."""
    jitter_ms: float = Field(default=0.0, ge=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """The delay varies evenly by as much, up and down, milliseconds. The order is kept."""
    bandwidth_bytes_per_s: int | None = Field(default=None, gt=0)
    """Bytes per second in each direction; null: no limit."""
    loss_percent: float = Field(default=0.0, ge=0, le=100, allow_inf_nan=False)
    """Of packets of 1,460 bytes that are lost, each time they are sent. Connections are TCP, which sends
    them again: a loss is felt as a delay, of what comes after on the same connection, too."""
    resend_ms: float = Field(default=DEFAULT_RESEND_MS, gt=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """Time until a lost packet is sent again, milliseconds; twice as long the next time, up to a minute."""
    slice_bytes: int | None = Field(default=None, gt=0, le=65_536)
    """Everything is delivered in slices of as many bytes, at most; null: as it came."""
    slice_delay_ms: float = Field(default=0.0, ge=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """Between two slices of a connection, milliseconds."""
    reset_every_s: float | None = Field(default=None, ge=SHORTEST_RESET_S, le=LONGEST_S, allow_inf_nan=False)
    """All connections are broken at this interval, seconds, the first time after one; null: never."""

    @property
    def perfect(self) -> bool:
        """True if nothing is made worse, whatever `for_s` says."""
        meant: dict[str, Any] = {"for_s": None}
        if not self.loss_percent:
            meant["resend_ms"] = DEFAULT_RESEND_MS
        return self.model_copy(update=meant) == LinkConditions()


class LinkView(Model):
    """A link between a site and the hub: how good it is, and what passed."""

    site: SiteName
    conditions: LinkConditions
    until: datetime | None = None
    """When it restores itself; null when it will not."""
    connections: int
    """Connections that are open now."""
    bytes_to_hub: int
    """Bytes from the site to the hub since the links' process started."""
    bytes_to_site: int
    """Bytes from the hub to the site since the links' process started."""


class LinkList(Model):
    """All links, by site."""

    links: list[LinkView]


class ShapeLink(Command[LinkView]):
    """Make a site's link worse, or better: these conditions replace those that hold."""

    subject = f"{_LINKS}.shape-link"
    answer = LinkView
    example = {"id": "l1", "site": "jfk", "conditions": {"cut": True, "for_s": 20.0}}

    site: SiteName
    conditions: LinkConditions


class RestoreLink(Command[LinkView]):
    """Make a site's link perfect again. Harmless when it is."""

    subject = f"{_LINKS}.restore-link"
    answer = LinkView
    example = {"id": "l2", "site": "jfk"}

    site: SiteName


class ListLinks(Command[LinkList]):
    """All links and how they are."""

    subject = f"{_LINKS}.list-links"
    answer = LinkList
    example = {"id": "l3"}


class LinkChanged(Event):
    """A site's link became worse or better: by a command, or because its time was over."""

    subject = f"{ROOT}.event.link.{{site}}.changed"
    example = {
        "at": "2026-01-01T00:00:00Z",
        "site": "jfk",
        "conditions": {"cut": False, "delay_ms": 40.0, "jitter_ms": 5.0, "bandwidth_bytes_per_s": 1_000_000},
    }

    site: SiteName
    conditions: LinkConditions


LINK_COMMANDS: tuple[type[Command[Any]], ...] = (ShapeLink, RestoreLink, ListLinks)
LINK_EVENTS: tuple[type[Event], ...] = (LinkChanged,)
