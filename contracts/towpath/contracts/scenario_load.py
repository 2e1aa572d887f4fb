"""The load of a scenario: device events, and the jobs they are for."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from towpath.contracts.job import JobSpec
from towpath.contracts.message import JobName, Model, SiteName, Topic

LONGEST_S = 24 * 3600.0

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _in_seconds(given: Any) -> Any:
    """`12s`, `500ms`, `2m` or a number of seconds; anything else is left for the type to refuse."""
    match = (
        re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)\s*", given) if isinstance(given, str) else None
    )
    return round(float(match[1]) * _UNITS[match[2]], 6) if match else given


Seconds = Annotated[
    float,
    BeforeValidator(_in_seconds, json_schema_input_type=float | str),
    Field(ge=0, le=LONGEST_S, allow_inf_nan=False),
]
"""A length of time: a number of seconds, or a text such as `12s`, `500ms`, `2m`."""

DEVICE_TOPIC = "site/scenario"


class LoadShape(StrEnum):
    """Rate of a synthetic load over time."""

    CONSTANT = "constant"
    """`rate`, all the time."""
    RAMP = "ramp"
    """From `rate` to `peak` within `period_s`, then `peak`."""
    BURST = "burst"
    """`peak` during the first `burst_s` of each `period_s`, else `rate`."""
    DIURNAL = "diurnal"
    """A sine between `rate` (night) and `peak` (noon), a day being `period_s`; it begins at night."""


class SyntheticLoad(Model):
    """Events made for the purpose: `n` (a number), `key`, `at` (event time) and `value`."""

    site: SiteName
    topic: Topic = DEVICE_TOPIC
    shape: LoadShape = LoadShape.CONSTANT
    rate: float = Field(default=100.0, gt=0, le=100_000)
    """Events per second."""
    peak: float | None = Field(default=None, gt=0, le=100_000)
    """Events per second, for shapes that have one."""
    period_s: Seconds | None = None
    burst_s: Seconds | None = None
    keys: int = Field(default=5, ge=1, le=100_000)
    disorder_s: Seconds = 0.3
    """By how much an event may be older than the newest before it."""
    repeats: float = Field(default=0.0, ge=0, le=1)
    """Probability that the device sends an event twice, as if it had missed an acknowledgement."""

    @model_validator(mode="after")
    def _complete(self) -> SyntheticLoad:
        needs = {
            LoadShape.CONSTANT: set[str](),
            LoadShape.RAMP: {"peak", "period_s"},
            LoadShape.BURST: {"peak", "period_s", "burst_s"},
            LoadShape.DIURNAL: {"peak", "period_s"},
        }[self.shape]
        given = {name for name in ("peak", "period_s", "burst_s") if getattr(self, name) is not None}
        if given != needs:
            raise ValueError(f"a {self.shape} load takes exactly {', '.join(['rate', *sorted(needs)])}")
        if self.period_s == 0:
            raise ValueError("period_s must be above 0")
        return self


class ReplayLoad(Model):
    """Recorded events, in the order of the recording."""

    replay: Literal["departures", "lines"]
    """The departures of 2013 from New York's airports; or the lines of a text, as `line`, over and over."""
    site: SiteName
    topic: Topic = DEVICE_TOPIC
    airport: str | None = None
    """Of departures; null: all three."""
    rate: float = Field(default=100.0, gt=0, le=100_000)
    """Events per second."""
    events: int | None = Field(default=None, gt=0)
    """So many of them, and the load is over; the phase *during* lasts at least until then. Null: it goes
    on until the run stops it, and begins again when the recording is over."""
    timetable: bool = False
    """Of departures of all airports: they come as they stand in the timetable, compressed so that `rate` is
    their mean. It needs `events`."""
    malformed_every: int | None = Field(default=None, gt=0)
    """A malformed record follows every Nth departure. Null: none."""

    @model_validator(mode="after")
    def _of_departures(self) -> ReplayLoad:
        if self.replay != "departures" and (self.airport or self.malformed_every):
            raise ValueError("only departures have an airport and malformed records")
        others = self.airport or self.malformed_every or self.events is None
        if self.timetable and (self.replay != "departures" or others):
            raise ValueError("timetable is for so many departures of all airports, without malformed records")
        return self

    @property
    def length(self) -> float:
        """Number of events before the closing ones."""
        if self.events is None:
            return math.inf
        return self.events + (self.events // self.malformed_every if self.malformed_every else 0)


def _kind_of_load(given: Any) -> str:
    replayed = "replay" in given if isinstance(given, dict) else isinstance(given, ReplayLoad)
    return "replay" if replayed else "synthetic"


Load = Annotated[
    Annotated[SyntheticLoad, Tag("synthetic")] | Annotated[ReplayLoad, Tag("replay")],
    Discriminator(_kind_of_load),
]


class StandardJob(Model):
    """A job over the events of a synthetic load, by what it computes."""

    name: JobName
    workload: Literal["windows", "cleaned", "processing"]
    """`windows`: count and sum per key and second of event time. `cleaned`: each event by itself.
    `processing`: count and sum per key and second of processing time."""
    site: SiteName
    """Where it runs first."""
    input_site: SiteName | None = None
    """Where its events come in; null: where it runs first."""
    second_input_site: SiteName | None = None
    """Where it has another input with the same topic. Null: it has one. Only `windows` can have two."""
    output_site: SiteName | None = None
    """Where its results are kept; null: where it runs first."""
    topic: Topic = DEVICE_TOPIC
    """Its inputs."""
    trigger_s: float = Field(default=0.5, ge=0, le=3600)
    standby: SiteName | None = None
    """Where it goes on if its site is lost. Its state is copied there every five seconds."""

    @model_validator(mode="after")
    def _judged(self) -> StandardJob:
        if self.second_input_site is not None and self.workload != "windows":
            raise ValueError("of the standard jobs, only windows can have two inputs")
        return self


def _kind_of_job(given: Any) -> str:
    standard = "workload" in given if isinstance(given, dict) else isinstance(given, StandardJob)
    return "standard" if standard else "spec"


ScenarioJob = Annotated[
    Annotated[StandardJob, Tag("standard")] | Annotated[JobSpec, Tag("spec")],
    Discriminator(_kind_of_job),
]
"""A standard job, or any job as it is deployed."""
