"""Uplinks: streams that a site forwards to another site. Their messages are in `data_plane`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AwareDatetime, Field, field_validator, model_validator

from towpath.contracts.data_plane import BROADCAST_PREFIX, DEVICE_PREFIX
from towpath.contracts.message import ROOT, Command, JobName, Model, SiteName, Topic, now
from towpath.contracts.reply import Done

_COORDINATOR = f"{ROOT}.command.coordinator"


class UplinkOrder(StrEnum):
    """Order in which an uplink forwards events."""

    LIVE_FIRST = "live-first"
    """New events first. Those of an outage come behind them, in a lane of their own. Each is in order."""
    KEPT = "kept"
    """All events in the order of their stream: new ones wait until the backlog is through."""


class LateEvents(StrEnum):
    """Difference that subscribers see between events of the backlog and new ones."""

    MARK = "mark"
    """By the header `Towpath-Uplink` alone. Both come on one topic."""
    TOPIC = "topic"
    """They come on the topic with `/late` behind it."""


class UplinkStart(StrEnum):
    """Where an uplink begins that has not forwarded anything."""

    EARLIEST = "earliest"
    """With the oldest event that the site keeps."""
    LATEST = "latest"
    """With the first event after the uplink was applied."""


class UplinkWindow(Model):
    """Time for sending: again and again (`cron` and `duration_s`), or once (`opens` and `closes`)."""

    cron: str | None = None
    """Five fields, as in crontab: when it opens."""
    duration_s: float | None = Field(default=None, gt=0)
    opens: AwareDatetime | None = None
    closes: AwareDatetime | None = None

    @field_validator("cron")
    @classmethod
    def _readable(cls, text: str | None) -> str | None:
        if text is not None:
            from cronsim import CronSim, CronSimError  # Few processes need it.

            try:
                next(CronSim(text, now()))
            except (CronSimError, StopIteration) as error:
                why = str(error) or "never"
                raise ValueError(f"not five fields of crontab, such as '0 */4 * * *': {why}") from error
        return text

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        regular = (self.cron is not None, self.duration_s is not None)
        once = (self.opens is not None, self.closes is not None)
        if not (all(regular) and not any(once)) and not (all(once) and not any(regular)):
            raise ValueError("a window has cron and duration_s, or opens and closes")
        if self.opens is not None and self.closes is not None and self.closes <= self.opens:
            raise ValueError("closes must be later than opens")
        return self


class UplinkSpec(Model):
    """One topic of a site, forwarded to another site."""

    name: JobName
    site: SiteName
    """Where the events are stored first."""
    topic: Topic
    """Of devices (`site/…`), or of a job whose output is at `site`."""
    to: SiteName
    """Where they are forwarded to."""
    publish: Topic | None = None
    """Topic at `to`; null: that of the job, or `from/<site>/…` for one of devices."""
    priority: int = Field(default=5, ge=0, le=9)
    """0 goes first. Uplinks behind share a tenth of what the link carries, so that none starves."""
    order: UplinkOrder = UplinkOrder.LIVE_FIRST
    backlog_share: float = Field(default=0.3, gt=0, lt=1)
    """Share of the link that the backlog has while new events need the rest. It has all that they leave."""
    late: LateEvents = LateEvents.MARK
    start: UplinkStart = UplinkStart.EARLIEST
    windows: list[UplinkWindow] = Field(default=[], max_length=1000)
    """Times in which events are sent; none: always."""
    timezone: str = "UTC"
    """Of `cron`, as in the tz database."""
    rate: int | None = Field(default=None, ge=100)
    """Bytes per second, on average over some seconds."""
    bytes_per_window: int | None = Field(default=None, ge=1000)
    bytes_per_month: int | None = Field(default=None, ge=1000)
    """By the calendar, in UTC. Bytes count before the link compresses them, and again when sent again."""

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError("not in the tz database; allowed is a name such as 'Europe/Lisbon'") from error
        return name

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.site == self.to:
            raise ValueError("`to` must be another site than `site`")
        if self.late is LateEvents.TOPIC and self.order is UplinkOrder.KEPT:
            raise ValueError("late: topic needs order: live-first, because kept order has one lane")
        if self.bytes_per_window is not None and not self.windows:
            raise ValueError("bytes_per_window needs windows")
        if self.publish is not None and self.publish.startswith(DEVICE_PREFIX):
            raise ValueError(f"publish must not begin with {DEVICE_PREFIX}: such topics belong to devices")
        if self.publish is not None and self.publish.startswith(BROADCAST_PREFIX):
            raise ValueError(f"topics under {BROADCAST_PREFIX} belong to broadcasts")
        return self

    @property
    def from_device(self) -> bool:
        """True if devices publish the topic."""
        return self.topic.startswith(DEVICE_PREFIX)

    @property
    def public_topic(self) -> str:
        """The topic at the destination."""
        if self.publish is not None:
            return self.publish
        below = self.topic.removeprefix(DEVICE_PREFIX)
        return f"from/{self.site}/{below}" if self.from_device else self.topic

    @property
    def topics(self) -> list[str]:
        """All topics at the destination."""
        late = [f"{self.public_topic}/late"] if self.late is LateEvents.TOPIC else []
        return [self.public_topic, *late]


class ResolvedUplink(Model):
    """An uplink, and the stream that it reads."""

    spec: UplinkSpec
    stream: str
    """At `spec.site`."""
    subject: str | None = None
    """Of its events in a stream that other topics share; null: all are its events."""
    after_serial: int = Field(default=0, ge=0)
    """It begins behind this serial number."""


class UplinkState(StrEnum):
    """Activity of an uplink at present."""

    IDLE = "idle"
    """All is forwarded."""
    SENDING = "sending"
    WINDOW = "window"
    """It waits for its next window."""
    BUDGET = "budget"
    """The bytes of the window or the month are spent."""
    NO_LINK = "no-link"
    """The destination does not answer."""
    UNKNOWN = "unknown"
    """Its site does not answer."""


class UplinkStatus(Model):
    """Figures of one uplink, as its site knows them."""

    name: JobName
    state: UplinkState
    forwarded: int = 0
    """Events at the destination, since the uplink exists."""
    backlog_events: int = 0
    """Events that wait. Of a stream that topics share, an upper bound."""
    backlog_bytes: int = 0
    rate: float = 0.0
    """Bytes per second, over the last seconds."""
    through_s: float | None = None
    """Seconds until the backlog is through, if it goes on like this; null: it does not shrink."""
    discarded: int = 0
    """Events that were gone before they could be forwarded. Of a stream that topics share, an upper bound."""
    spent_in_window: int = 0
    spent_in_month: int = 0
    """Bytes."""
    opens_at: datetime | None = None
    """Beginning of the next window, while none is open."""
    trouble: str | None = None
    """For people: what is wrong."""


class UplinkReport(Model):
    """Answer of a site: the revision that it has, and its uplinks' figures."""

    revision: int
    uplinks: list[UplinkStatus]


class UplinkView(Model):
    """An uplink with its figures."""

    uplink: ResolvedUplink
    status: UplinkStatus


class UplinkList(Model):
    """All uplinks, by name."""

    uplinks: list[UplinkView]


EXAMPLE_UPLINK: dict[str, Any] = {
    "name": "axles",
    "site": "train",
    "topic": "axles/events",
    "to": "cloud",
    "priority": 1,
    "windows": [{"cron": "0 */4 * * *", "duration_s": 900}],
    "bytes_per_month": 1_000_000_000,
}

EXAMPLE_RESOLVED: dict[str, Any] = {"spec": EXAMPLE_UPLINK, "stream": "OUT_axles"}


class ApplyUplinks(Command[UplinkList]):
    """Make these uplinks be as described. Others stay as they are."""

    subject = f"{_COORDINATOR}.apply-uplinks"
    answer = UplinkList
    example = {"id": "u1", "uplinks": [EXAMPLE_UPLINK]}

    uplinks: list[UplinkSpec] = Field(min_length=1, max_length=1000)


class ListUplinks(Command[UplinkList]):
    """All uplinks."""

    subject = f"{_COORDINATOR}.list-uplinks"
    answer = UplinkList
    example = {"id": "u2"}


class RemoveUplink(Command[Done]):
    """Forward no more, and forget the uplink. What has arrived stays, unless purged."""

    subject = f"{_COORDINATOR}.remove-uplink"
    answer = Done
    example = {"id": "u3", "uplink": "axles"}

    uplink: JobName
    purge: bool = False
    """Delete what has arrived."""


class SetUplinks(Command[UplinkReport]):
    """All that a site has to do with uplinks, whole: what is not named here ends.

    A site keeps the set, also when it restarts without the hub. It refuses a revision older than its own.
    """

    subject = f"{ROOT}.command.{{site}}.set-uplinks"
    answer = UplinkReport
    example = {"id": "u4", "site": "train", "revision": 7, "sends": [EXAMPLE_RESOLVED]}

    site: SiteName
    revision: int = Field(ge=0)
    sends: list[ResolvedUplink] = []
    """The site is the origin."""
    receives: list[ResolvedUplink] = []
    """The site is the destination: it keeps a stream for each."""
    purged: list[str] = []
    """Streams of removed uplinks that the site deletes."""


class ReportUplinks(Command[UplinkReport]):
    """The figures of the uplinks that a site sends."""

    subject = f"{ROOT}.command.{{site}}.report-uplinks"
    answer = UplinkReport
    example = {"id": "u5", "site": "train"}

    site: SiteName


UPLINK_COMMANDS: tuple[type[Command[Any]], ...] = (ApplyUplinks, ListUplinks, RemoveUplink)
"""Served by the coordinator."""

SITE_UPLINK_COMMANDS: tuple[type[Command[Any]], ...] = (SetUplinks, ReportUplinks)
