"""The expected results of jobs 3 and 4, by a batch computation over the events that were sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from towpath.checker.clean_truth import clean_truth
from towpath.checker.identity import Identity, WindowIdentity
from towpath.checker.observation import ReceivedMessage
from towpath.checker.truth import WindowTruth, window_truth
from towpath.contracts.operators import Window
from towpath.lab.demonstration.fog.arrangement import LATE_MINUTES
from towpath.lab.demonstration.fog.load import Portion
from towpath.lab.demonstration.pipeline import CLEAN, hourly
from towpath.lab.workload.departures import CLOSING_CARRIER

COUNT = "departures"
"""Aggregate that says how many events a window holds."""


def turn_truth(turn: Sequence[Portion]) -> WindowTruth:
    """The results of one turn: the portions of all edges at one rate. They are the same in both scenarios."""
    truth: WindowTruth = {}
    late: list[pd.DataFrame] = []
    for portion in turn:
        accepted = pd.DataFrame([*clean_truth(portion.events, CLEAN).accepted.values()])
        real = accepted.loc[accepted["carrier"] != CLOSING_CARRIER]
        late.append(real.loc[real["delay"] > LATE_MINUTES])
        truth |= windows_of(real, f"hourly-{portion.edge}")
        truth |= windows_of(late[-1], f"delays-{portion.edge}")
    return truth | windows_of(pd.concat(late), "delays-all")


def windows_of(events: pd.DataFrame, job: str, operator: Window | None = None) -> WindowTruth:
    """The windows that a job with the operator, hourly statistics unless given, makes of the events."""
    operator = operator or hourly(0.0)
    assert operator.event_time is not None
    assert operator.size_s is not None
    return window_truth(events, operator.event_time, operator.size_s, operator.key, operator.aggregates, job)


def is_closing(identity: Identity) -> bool:
    """True if a result is the window of a closing event, which stands for no departure."""
    return isinstance(identity, WindowIdentity) and ("carrier", CLOSING_CARRIER) in identity.key


def of_departures(observations: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
    """The results that stand for departures."""
    return [o for o in observations if not is_closing(o.identity)]


def events_in(values: dict[str, Any]) -> int:
    """Return the number of departures in a window."""
    return int(values[COUNT])
