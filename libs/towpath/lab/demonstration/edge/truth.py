"""The truth about the data model's events: a batch computation over the reports that the train stored.

It knows nothing of Spark, micro-batches and restarts: each wheel's reports go through its model in one piece.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from towpath.checker.accepted import StoredEvent
from towpath.checker.identity import Identity, SerialIdentity, utc
from towpath.contracts.data_model import DataModel
from towpath.contracts.operators import Chain
from towpath.contracts.prediction import Predict
from towpath.edge.compilation import job_of
from towpath.prediction.keyed import Keyed, KeyEvents
from towpath.prediction.plan import Plan

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DataPoint:
    """A report after mapping, with its serial number."""

    serial: int
    values: dict[str, Any]


def data_points(model: DataModel, stored: Sequence[StoredEvent]) -> list[DataPoint]:
    """Return the reports as the mapping makes data points of them."""
    scale = model.mapping.calibration["acceleration"].scale
    points: list[DataPoint] = []
    for event in stored:
        number, wheel, at, speed, raw = event.payload.decode().split(",")
        values = {
            "id": int(number),
            "wheel": wheel,
            "at": utc(at),
            "speed": float(speed),
            "acceleration": float(raw) * scale,
            **model.mapping.context,
        }
        points.append(DataPoint(event.serial, values))
    return points


def expected_events(model: DataModel, stored: Sequence[StoredEvent]) -> dict[Identity, Mapping[str, Any]]:
    """Return one event for each report, with what the wheel's model says."""
    by_wheel: defaultdict[str, list[DataPoint]] = defaultdict(list)
    for point in data_points(model, stored):
        by_wheel[point.values["wheel"]].append(point)
    found: dict[Identity, Mapping[str, Any]] = {}
    for points in by_wheel.values():
        found |= _of_wheel(model, points)
    return found


def _of_wheel(model: DataModel, points: Sequence[DataPoint]) -> dict[Identity, Mapping[str, Any]]:
    plan = Plan.of(_predictive(model))
    micros = [(point.values["at"] - EPOCH) // timedelta(microseconds=1) for point in points]
    events = KeyEvents(
        serials=np.array([point.serial for point in points], np.int64),
        times=np.array(micros, np.int64),
        numbers={
            name: np.array([point.values[name] for point in points], np.float64) for name in plan.numbers
        },
        fields={},
    )
    verdicts = Keyed(plan).results(events).columns
    rows = zip(*verdicts.values(), strict=True)
    return {
        SerialIdentity(model.name, None, point.serial): {**point.values, **_verdict([*verdicts], row)}
        for point, row in zip(points, rows, strict=True)
    }


def _verdict(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    verdict = dict(zip(names, row, strict=True))
    since = verdict["since"]
    return {**verdict, "since": None if since is None else EPOCH + timedelta(microseconds=int(since))}


def _predictive(model: DataModel) -> Predict:
    operator = job_of(model).operator
    assert isinstance(operator, Chain)
    [step] = [step for step in operator.steps if isinstance(step, Predict)]
    return step
