"""Run a model, or the whole computation of a key, on numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from towpath.contracts.operators import FieldType, Predict
from towpath.prediction.keyed import Keyed, KeyEvents
from towpath.prediction.plan import Plan
from towpath.prediction.registry import Detector, Sample, Verdict

SECOND = 1_000_000


def operator(model: dict[str, Any], **changes: Any) -> Predict:
    fields = {"v": FieldType.DOUBLE, "speed": FieldType.DOUBLE}
    return TypeAdapter(Predict).validate_python({"fields": fields, "model": model, **changes})


def model(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"kind": kind, "of": "v", **parameters}


def detector(kind: str, **parameters: Any) -> Detector:
    plan = Plan.of(operator(model(kind, **parameters)))
    return plan.kind.detector(plan.model)


def verdicts(watching: Detector, values: Sequence[float], first: int = 1) -> list[Verdict]:
    """The judgement of a model; event n has the serial number n, and the time of n seconds."""
    return [watching.see(Sample(v, (n, n * SECOND), ())) for n, v in enumerate(values, first)]


def own(kind: str, found: Sequence[Verdict], name: str, **parameters: Any) -> list[Any]:
    """One of the model's own fields, of each verdict."""
    plan = Plan.of(operator(model(kind, **parameters)))
    position = [*plan.kind.writes(plan.model)].index(name)
    return [verdict.own[position] for verdict in found]


def alarms(found: Sequence[Verdict], first: int = 1) -> list[int]:
    """The serial numbers of the alarms."""
    return [n for n, verdict in enumerate(found, first) if verdict.state == "alarm"]


def results(plan: Plan, rows: Sequence[tuple[float, ...]], cuts: Sequence[int] = ()) -> list[dict[str, Any]]:
    """The results of events: number, speed and seconds of each. State is saved and read at each cut."""
    bounds = sorted({0, len(rows), *cuts})
    keyed, made = Keyed(plan), []
    for begin, end in itertools.pairwise(bounds):
        part = np.array(rows[begin:end], np.float64)
        events = KeyEvents(
            serials=np.arange(begin, end) + 1,
            times=(part[:, 2] * SECOND).astype(np.int64),
            numbers={"v": part[:, 0], "speed": part[:, 1]},
            fields={"v": _values(part[:, 0]), "speed": _values(part[:, 1])},
        )
        found = keyed.results(events)
        names = [*found.columns]
        serials = (found.chosen + begin + 1).tolist()
        made += [
            {"serial": serial, **dict(zip(names, row, strict=True))}
            for serial, row in zip(
                serials, zip(*(found.columns[name] for name in names), strict=True), strict=True
            )
        ]
        keyed = Keyed(plan, keyed.state)
    return [{name: _comparable(value) for name, value in one.items()} for one in made]


def _values(column: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in column]


def _comparable(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value
