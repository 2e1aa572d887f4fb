"""Broadcasts: one message for the devices of many sites. It crosses each site's link once."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, model_validator

from towpath.contracts.message import ROOT, AskedBy, Command, Event, Identifier, Model, SiteName, Topic

_COORDINATOR = f"{ROOT}.command.coordinator"

DEFAULT_EXPIRY_S = 24 * 3600.0
LONGEST_EXPIRY_S = 30 * 24 * 3600.0

MAX_PAYLOAD_CHARACTERS = 1_000_000
"""A command with it fits into a message, whatever JSON makes of its characters, and into a REST request."""


class Content(Model):
    """A message to devices."""

    topic: Topic
    """Devices receive it on `broadcast/<topic>/<id of the broadcast>`."""
    payload: str = Field(max_length=MAX_PAYLOAD_CHARACTERS)
    base64: bool = False
    """The payload is bytes in base64. Otherwise it is text, which devices receive in UTF-8."""

    @model_validator(mode="after")
    def _decodes(self) -> Self:
        try:
            self.to_payload()
        except binascii.Error as error:
            raise ValueError(f"the payload is not base64: {error}") from error
        return self

    def to_payload(self) -> bytes:
        """Return the bytes that devices receive."""
        return base64.b64decode(self.payload, validate=True) if self.base64 else self.payload.encode()

    @staticmethod
    def fields_for(payload: bytes) -> dict[str, Any]:
        """Return the fields that carry these bytes: as text where they are text."""
        try:
            return {"payload": payload.decode()}
        except UnicodeDecodeError:
            return {"payload": base64.b64encode(payload).decode(), "base64": True}


class BroadcastState(StrEnum):
    """State of a broadcast at one site."""

    WAITING = "waiting"
    """The site has not confirmed it."""
    DELIVERED = "delivered"
    """The site has stored it, and its broker gives it to the devices."""
    EXPIRED = "expired"
    """The site was out of reach until it was too late."""


class SiteBroadcast(Model):
    """A broadcast at one site."""

    site: SiteName
    state: BroadcastState = BroadcastState.WAITING
    at: datetime | None = None
    """When it came to this state; null while it waits."""
    subscriptions: int | None = None
    """QoS 1 subscriptions at the site's server that matched when it was delivered. Null: not counted, because
    the site has too many."""
    note: str = ""
    """For people: why it still waits."""


class BroadcastView(Model):
    """A broadcast, and how far it got."""

    broadcast: Identifier
    """The id of the command that sent it."""
    topic: Topic
    payload_bytes: int
    sent_at: datetime
    expires_at: datetime
    asked_by: AskedBy | None = None
    """Who sent it."""
    sites: list[SiteBroadcast]

    def count(self, state: BroadcastState) -> int:
        """Return the number of sites in a state."""
        return sum(each.state is state for each in self.sites)


class BroadcastList(Model):
    """Broadcasts, newest first."""

    broadcasts: list[BroadcastView]


class SendBroadcast(Content, Command[BroadcastView]):
    """Send one message to the devices of many sites, once over each site's link.

    It is accepted when it is answered. A site out of reach gets it later, unless it has expired by then.
    """

    subject = f"{_COORDINATOR}.send-broadcast"
    answer = BroadcastView
    example = {"id": "b1", "topic": "lamps/all", "payload": "off", "sites": ["jfk"], "expires_s": 3600.0}

    sites: list[SiteName] = Field(default=[], max_length=1000)
    """Empty: all sites that the mesh has now."""
    expires_s: float = Field(default=DEFAULT_EXPIRY_S, ge=1, le=LONGEST_EXPIRY_S)
    """Seconds after which no site, and no device that was away, gets it any more."""


class ListBroadcasts(Command[BroadcastList]):
    """The latest broadcasts, newest first."""

    subject = f"{_COORDINATOR}.list-broadcasts"
    answer = BroadcastList
    example = {"id": "b2"}


class ShowBroadcast(Command[BroadcastView]):
    """One broadcast with its state at each site."""

    subject = f"{_COORDINATOR}.show-broadcast"
    answer = BroadcastView
    example = {"id": "b3", "broadcast": "b1"}

    broadcast: Identifier


class DeliverBroadcast(Content, Command[SiteBroadcast]):
    """Store a broadcast at a site, and publish it to the site's broker. One that is there is left alone."""

    subject = f"{ROOT}.command.{{site}}.deliver-broadcast"
    answer = SiteBroadcast
    example = {
        "id": "b4",
        "site": "jfk",
        "broadcast": "b1",
        "topic": "lamps/all",
        "payload": "off",
        "left_s": 3599.5,
    }

    site: SiteName
    broadcast: Identifier
    left_s: float = Field(gt=0, le=LONGEST_EXPIRY_S)
    """Seconds until it expires. A duration, as clocks of two machines may differ."""


class BroadcastChanged(Event):
    """A site has a broadcast now, or it expired before the site could be reached.

    Told again if the coordinator is killed before it has noted it.
    """

    subject = f"{ROOT}.event.broadcast.{{broadcast}}.changed"
    example = {
        "at": "2026-01-01T00:00:00Z",
        "broadcast": "b1",
        "topic": "lamps/all",
        "site": "jfk",
        "state": "delivered",
        "subscriptions": 20,
    }

    broadcast: Identifier
    topic: Topic
    site: SiteName
    state: BroadcastState
    subscriptions: int | None = None


BROADCAST_COMMANDS: tuple[type[Command[Any]], ...] = (SendBroadcast, ListBroadcasts, ShowBroadcast)
"""Served by the coordinator."""

SITE_BROADCAST_COMMANDS: tuple[type[Command[Any]], ...] = (DeliverBroadcast,)

BROADCAST_EVENTS: tuple[type[Event], ...] = (BroadcastChanged,)
