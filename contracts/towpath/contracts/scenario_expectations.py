"""Conditions for the success of a scenario's run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from towpath.contracts.message import Model
from towpath.contracts.scenario_load import Seconds


class Bounds(Model):
    """Least and greatest number."""

    at_least: int = Field(default=0, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    def hold(self, count: int) -> bool:
        """Return True if `count` lies between them."""
        return count >= self.at_least and (self.at_most is None or count <= self.at_most)


Count = Annotated[
    Bounds,
    BeforeValidator(
        lambda given: {"at_least": given, "at_most": given} if isinstance(given, int) else given,
        json_schema_input_type=Bounds | int,
    ),
]
"""A number, or bounds."""

NONE = Bounds(at_least=0, at_most=0)
ANY = Bounds()


class Deviation(StrEnum):
    """Steady state may be left from the beginning of `during` on."""

    MAY = "may"
    MUST = "must"
    MUST_NOT = "must_not"


class MoveEnd(StrEnum):
    """The end that migrations must have."""

    COMPLETED = "completed"
    WELL = "well"
    """Completed or rolled back."""
    ANY = "any"


class Expectations(Model):
    """Conditions for the success of a run."""

    deviates: Deviation = Deviation.MAY
    recovers_within_s: Seconds | None = 30.0
    """From the moment when everything was unloaded until steady state holds again; null: any time."""
    results_again_within_s: Seconds | None = None
    """From the end of the last fault until each judged job has a result of an event that was stored after it;
    null: not measured. It includes the time that every result takes: trigger, window and watermark."""
    lost: Count = NONE
    duplicated: Count = NONE
    wrong: Count = NONE
    unexpected: Count = NONE
    unseen: Count = NONE
    stale_owner: Count = NONE
    in_order: bool = False
    """True: look at the order of results, too. Windows of a key come by their time, results that stand for
    one event by its serial number. A broker that is restarted may bring a result after younger ones."""
    out_of_order: Count = NONE
    nonmonotonic: Count = ANY
    premature: Count = ANY
    late: Count = ANY
    unstored: Count = NONE
    """Events that a broker acknowledged to a device and that are not in its topic."""
    migrations: MoveEnd = MoveEnd.COMPLETED
    rules_act: bool = True
    """Every rule must have acted at least once: else the run has shown nothing."""
