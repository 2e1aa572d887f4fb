"""The autopilot: what people announce to it, and its decisions with their reasons and what came of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import AwareDatetime, Field, model_validator

from towpath.contracts.message import ROOT, AskedBy, Command, Event, Identifier, JobName, Model, SiteName
from towpath.contracts.metrics import Pattern

_AUTOPILOT = f"{ROOT}.command.autopilot"
_AT = "2026-01-01T00:00:00Z"


class AutopilotMode(StrEnum):
    """Freedom of the autopilot."""

    OFF = "off"
    """It does not run."""
    PROPOSE = "propose"
    """It asks people before it moves jobs."""
    ACT = "act"
    """It moves jobs, and tells."""


class AutopilotSpec(Model):
    """Settings of the autopilot. A mesh that exists keeps what it has when this is left out."""

    mode: AutopilotMode = AutopilotMode.OFF
    policy: str = Field(default="performance", max_length=50)
    """Policy of placement that finds places, see `docs/placement.md`."""
    jobs: list[Pattern] = Field(default=["*"], min_length=1, max_length=100)
    """Jobs that it may move; `*` stands for any characters."""
    latency_s: float = Field(default=5.0, gt=0, allow_inf_nan=False)
    """Goal of jobs that have none of their own: seconds from the newest event in a result to the result."""
    horizon_s: float = Field(default=600.0, gt=0, le=86_400)
    """Seconds that it looks ahead. A move has to pay for itself within them."""
    interval_s: float = Field(default=5.0, ge=1, le=3600)
    """Seconds between two looks."""
    settled_s: float = Field(default=10.0, ge=0)
    """Seconds for which jobs are measured after a change before the next look."""
    rest_s: float = Field(default=120.0, ge=0)
    """Seconds for which a job that moved stays, unless it would break its goal. A job stays with its twin if
    only that was well for so long. A twin is ended if the first run was well for a quarter of that."""
    moves_per_hour: int = Field(default=20, ge=1)
    """Moves of all jobs within an hour."""
    twins: int = Field(default=2, ge=0, le=100)
    """Jobs that may have a second run at a time, of those with `qos.replicas: auto`."""
    kilojoule_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Job-seconds of broken goals that a kilojoule is worth."""
    gigabyte_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Job-seconds of broken goals that 10⁹ bytes over links are worth."""


class WindowCause(StrEnum):
    """Announced change of a site."""

    DOWN = "down"
    """The site does not run, for example for its maintenance."""
    LINK = "link"
    """The site has no link, for example in a tunnel."""
    PRICE = "price"
    """Energy has another price there."""


class SiteWindow(Model):
    """A time in which something is different at a site."""

    window: Identifier
    site: SiteName
    cause: WindowCause
    factor: float = 1.0
    """Of a price: so many times the usual one."""
    begins: AwareDatetime
    ends: AwareDatetime
    note: str = ""
    """For people."""


class DecisionState(StrEnum):
    """State of a decision."""

    PLANNED = "planned"
    """Its moves are due later."""
    HELD = "held"
    """It would gain something, but a rule forbids it: `rule`."""
    PROPOSED = "proposed"
    """It waits for people."""
    MOVING = "moving"
    TWIN = "twin"
    """Both sites run the job, and the first of two equal results counts."""
    DONE = "done"
    """All of its moves were completed."""
    FAILED = "failed"
    """A move did not succeed; the ones after it were not made."""
    REFUSED = "refused"
    """People said no."""
    DROPPED = "dropped"
    """The autopilot does not want it any more."""


class DecidedMove(Model):
    """A job changes its site."""

    job: JobName
    origin: SiteName
    target: SiteName


class Expectation(Model):
    """Course of all jobs over the horizon, as predicted."""

    late_s: float
    """Job-seconds of broken goals."""
    joules: float
    """Energy of all sites."""
    link_bytes: float
    """Bytes over all links."""


class DecisionOutcome(Model):
    """Result of a decision, as measured."""

    ended: datetime
    """End of its last move."""
    moved_s: float
    """Seconds that its moves took, one after the other."""
    downtime_s: float
    """Longest gap in the results of a job that moved."""
    stays: SiteName | None = None
    """Of a twin: the site that went on alone."""
    late_s: float | None = None
    """Job-seconds in which the moved jobs broke their goal afterwards; null until that was looked at."""
    measured_s: float = 0.0
    """Job-seconds in which they were measured afterwards."""


class Decision(Model):
    """Moves that the autopilot wants, why, and what came of them.

    Or a twin: one move of which it is open whether the job follows.
    """

    decision: Identifier
    decided: datetime
    state: DecisionState
    reason: str
    """For people."""
    rule: str = ""
    """The rule that holds it back."""
    moves: list[DecidedMove]
    is_twin: bool = False
    """Both run the job until it is known which one goes on."""
    due: datetime | None = None
    """Time at which its moves begin."""
    horizon_s: float
    staying: Expectation
    moving: Expectation
    gain_s: float
    """Job-seconds of broken goals that it saves, energy and bytes included at their price."""
    cost_s: float
    """Job-seconds that its moves are expected to take."""
    asked_by: AskedBy | None = None
    """Who approved or refused it. None: the autopilot decided alone."""
    error: str | None = None
    outcome: DecisionOutcome | None = None


class AutopilotStatus(Model):
    """State of the autopilot."""

    mode: AutopilotMode
    policy: str
    latency_s: float
    looked: datetime | None = None
    """Time of its last look that succeeded."""
    trouble: str | None = None
    """Reason why the last look failed."""
    windows: list[SiteWindow] = []
    """Windows that have not ended."""
    decisions: list[Decision] = []
    """The newest first."""


_WINDOW = {
    "window": "w1",
    "site": "train",
    "cause": "link",
    "begins": "2026-01-01T00:10:00Z",
    "ends": "2026-01-01T00:12:00Z",
    "note": "tunnel",
}
_EXPECTED = {"late_s": 240.0, "joules": 3600.0, "link_bytes": 1200000.0}
_DECISION = {
    "decision": "d1",
    "decided": _AT,
    "state": "done",
    "reason": "train has no link from 00:10:00 to 00:12:00",
    "moves": [{"job": "hourly", "origin": "train", "target": "cloud"}],
    "horizon_s": 600.0,
    "staying": _EXPECTED,
    "moving": {**_EXPECTED, "late_s": 0.0},
    "gain_s": 240.0,
    "cost_s": 5.0,
    "outcome": {"ended": _AT, "moved_s": 4.2, "downtime_s": 0.3, "late_s": 0.0, "measured_s": 120.0},
}


class ShowAutopilot(Command[AutopilotStatus]):
    """Show settings, windows ahead, and the newest decisions of the autopilot."""

    subject = f"{_AUTOPILOT}.show"
    answer = AutopilotStatus
    example = {"id": "a1", "limit": 20}

    limit: int = Field(default=20, ge=1, le=1000)
    """At most so many decisions."""


class AnnounceWindow(Command[SiteWindow]):
    """Announce that a site will be different: a timetable's tunnel, maintenance, another price of energy."""

    subject = f"{_AUTOPILOT}.announce-window"
    answer = SiteWindow
    example = {**{name: value for name, value in _WINDOW.items() if name != "window"}, "id": "w1"}

    site: SiteName
    cause: WindowCause = WindowCause.LINK
    factor: float = Field(default=1.0, ge=0, le=1000)
    """Of a price: so many times the usual one. It counts as far as `kilojoule_s` says."""
    begins: AwareDatetime
    ends: AwareDatetime
    note: str = Field(default="", max_length=200)

    @model_validator(mode="after")
    def _lasts(self) -> AnnounceWindow:
        if self.ends <= self.begins:
            raise ValueError("ends must be later than begins")
        if (self.cause is WindowCause.PRICE) != (self.factor != 1.0):
            raise ValueError("a price needs a factor other than 1, and nothing else has one")
        return self


class WithdrawWindow(Command[SiteWindow]):
    """Take back an announcement."""

    subject = f"{_AUTOPILOT}.withdraw-window"
    answer = SiteWindow
    example = {"id": "a2", "window": "w1"}

    window: Identifier


class ApproveDecision(Command[Decision]):
    """Let the autopilot carry out a decision that it proposed."""

    subject = f"{_AUTOPILOT}.approve-decision"
    answer = Decision
    example = {"id": "a3", "decision": "d1"}

    decision: Identifier


class RefuseDecision(Command[Decision]):
    """Forbid a decision that was not carried out yet. Its moves are not proposed again for some time."""

    subject = f"{_AUTOPILOT}.refuse-decision"
    answer = Decision
    example = {"id": "a4", "decision": "d1"}

    decision: Identifier


class DecisionChanged(Event):
    """A decision was made, or its state changed."""

    subject = f"{ROOT}.event.decision.{{decision}}.changed"
    example = {"at": _AT, "decision": "d1", "now": _DECISION}

    decision: Identifier
    now: Decision


class WindowChanged(Event):
    """A window was announced or withdrawn."""

    subject = f"{ROOT}.event.window.{{window}}.changed"
    example = {"at": _AT, "window": "w1", "now": _WINDOW, "withdrawn": False}

    window: Identifier
    now: SiteWindow
    withdrawn: bool = False


AUTOPILOT_COMMANDS: tuple[type[Command[Any]], ...] = (
    ShowAutopilot,
    AnnounceWindow,
    WithdrawWindow,
    ApproveDecision,
    RefuseDecision,
)
AUTOPILOT_EVENTS: tuple[type[Event], ...] = (DecisionChanged, WindowChanged)
