"""The report of a run: `demo/edge.json`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from towpath.contracts.errors import ErrorCode
from towpath.contracts.message import Model
from towpath.lab.harness.report import Judgement, MoveReport
from towpath.lab.workload.journey import Call


class Asked(Model):
    """A request at a station that the moving job change sides while the train stands there."""

    at_most_s: float
    """The limit that was given: a part of what was left of the stop."""
    target: str
    operation: str | None = None
    """Null if it was refused."""
    refusal: str | None = None
    """The coordinator's answer, if it refused. Nothing had begun, and the job ran on."""
    refused_as: ErrorCode | None = None
    """Code of that answer: `not_allowed` if the forecast was longer than the limit, `busy` if the job was
    still moving."""
    forecast_s: float | None = None
    """The duration that the coordinator expected, if it accepted."""

    def outcome(self, moves: Sequence[MoveReport]) -> str:
        """Return in a few words what came of it. `moves` are all migrations of the run."""
        move = next((move for move in moves if move.operation == self.operation), None)
        if move is None or self.operation is None:
            still = "is still on its way" if self.refused_as is ErrorCode.BUSY else "stays"
            too_long = self.refused_as is ErrorCode.NOT_ALLOWED
            return f"{still}: does not fit into {self.at_most_s:g} s" if too_long else still
        took = "–" if move.total_s is None else f"{move.total_s:.1f} s"
        expected = "" if self.forecast_s is None else f", forecast {self.forecast_s:.1f} s"
        return f"{move.way}, {move.state}, {took}{expected}"


class ContactReport(Model):
    """A stop: what came over the link."""

    station: str
    arrives_s: float
    """By the timetable, seconds since the first measurement; so is `departs_s`."""
    departs_s: float
    link_at: float
    """Unix seconds, when the link was there; of the first station, when the journey began."""
    delivered: int
    """Events of the data model that reached the trackside until the link was cut again."""
    first_after_s: float | None
    """Seconds from the link's return to the first of them. Null if none came."""
    caught_up_after_s: float | None
    """Seconds from the link's return until an event had come that was made since. Null if none had."""
    asked: Asked | None = None

    @classmethod
    def of(
        cls, call: Call, link_at: float, came: Iterable[tuple[float, float]], asked: Asked | None
    ) -> ContactReport:
        """Return the report of a stop. `came` has, for each delivered event, when it came and was made."""
        # What was mirrored before the link was cut may come while it is.
        came = [each for each in came if each[0] >= link_at]
        newer = [received_at for received_at, made_at in came if made_at >= link_at]
        return cls(
            station=call.station,
            arrives_s=call.arrives_s,
            departs_s=call.departs_s,
            link_at=link_at,
            delivered=len(came),
            first_after_s=round(came[0][0] - link_at, 2) if came else None,
            caught_up_after_s=round(newer[0] - link_at, 2) if newer else None,
            asked=asked,
        )


class Detection(Model):
    """The detection of the flat wheel. Times are Unix seconds."""

    wheel: str
    first_impact_at: float
    """When the train stored the report with the first impact."""
    alarm_at: float | None = None
    """When the train stored the first alarm of this wheel. Null if there was none."""
    known_at: float | None = None
    """When the first alarm reached the trackside."""
    impacts: int = 0
    """Impacts from the first to the alarm, both included."""

    @property
    def latency_s(self) -> float | None:
        """Seconds from the first impact to the alarm on board."""
        return None if self.alarm_at is None else round(self.alarm_at - self.first_impact_at, 2)

    @property
    def known_after_s(self) -> float | None:
        """Seconds from the first impact to the alarm at the trackside."""
        return None if self.known_at is None else round(self.known_at - self.first_impact_at, 2)


class EdgeReport(Model):
    """The whole run."""

    reports: int
    """Reports that the accelerometers sent on the journey."""
    reports_per_s: float
    begun_at: float
    """Unix seconds, when the journey began."""
    detection: Detection
    alarms: dict[str, int]
    """Wheel → events with an alarm."""
    contacts: list[ContactReport]
    migrations: list[MoveReport]
    judgements: dict[str, Judgement]
    """Job → the checker's verdict."""
    problems: list[str] = []
    """Everything else that was not as expected."""
    seconds: float = 0.0
    """Of the whole run, start and stop of the mesh included."""

    @property
    def judged(self) -> Judgement:
        """All jobs together."""
        return Judgement.together(self.judgements.values())

    @property
    def clean(self) -> bool:
        """True if every event arrived exactly once and right, and the flat wheel was found, and no other."""
        found = (
            self.alarms.get(self.detection.wheel, 0) > 0 and len([*filter(None, self.alarms.values())]) == 1
        )
        return found and all(each.clean for each in self.judgements.values()) and not self.problems
