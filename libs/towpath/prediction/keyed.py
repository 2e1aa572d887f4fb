"""Compute one key: rolling aggregates, then the model, then the choice of events with a result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from towpath.prediction.plan import Plan
from towpath.prediction.registry import ALARM, NO_VALUE, VERDICT, Sample, Verdict
from towpath.prediction.rolling import Floats, Ints, RollingWindow

VERSION = 1
"""Of the state's layout. State is a MessagePack array: version, rolling window, model, last verdict."""

_SKIPPED = Verdict(NO_VALUE, None, None, None, None)


@dataclass(frozen=True)
class KeyEvents:
    """Events of one key, in their order."""

    serials: Ints
    times: Ints
    """Microseconds since 1970."""
    numbers: Mapping[str, Floats]
    """Those of `Plan.numbers`; NaN where an event has none."""
    fields: Mapping[str, Sequence[Any]]
    """Values of all declared fields, for models that take all; None where an event has none."""


@dataclass(frozen=True)
class KeyResults:
    """The results of such events."""

    chosen: Ints
    """Positions of the events that have a result."""
    columns: dict[str, Any]
    """Of each chosen event: rolling aggregates, `VERDICT`, and the model's own fields. None is null."""


class Keyed:
    """Rolling window and model of one key."""

    def __init__(self, plan: Plan, state: bytes | None = None) -> None:
        """Continue from a `state`, which `state` of an earlier object returned. Raises `ValueError`."""
        self._plan, self._kind = plan, plan.kind
        self._window = None if plan.rolling is None else RollingWindow(plan.rolling)
        self._detector = self._kind.detector(plan.model)
        self._last: list[str | None] | None = None
        if state is not None:
            self._restore(state)

    def _restore(self, state: bytes) -> None:
        version, window, detector, self._last = msgspec.msgpack.decode(state)
        if version != VERSION:
            raise ValueError(f"the state of a prediction has layout {version}; this version reads {VERSION}")
        if self._window is not None:
            self._window.restore(window)
        self._detector.restore(detector)

    @property
    def state(self) -> bytes:
        """All that later events depend on."""
        window = None if self._window is None else self._window.saved()
        return msgspec.msgpack.encode([VERSION, window, self._detector.saved(), self._last])

    def results(self, events: KeyEvents) -> KeyResults:
        """Take in the next events, one at least."""
        rolled = {} if self._window is None else self._window.add(events.times, events.numbers)
        verdicts = [self._detector.see(s) if s else _SKIPPED for s in self._samples(events, rolled)]
        chosen = np.array([n for n, verdict in enumerate(verdicts) if self._is_told(verdict)], np.int64)
        told = [verdicts[n] for n in chosen]
        columns = {name: values[chosen] for name, values in rolled.items()}
        return KeyResults(chosen, {**columns, **self._columns(told)})

    def _samples(self, events: KeyEvents, rolled: Mapping[str, Floats]) -> Sequence[Sample | None]:
        """The part of each event that the model sees; None for one that lacks a number."""
        places = [*zip(events.serials.tolist(), events.times.tolist(), strict=True)]
        model, kind = self._plan.model, self._kind
        if kind.takes_all:
            values = {**events.fields, **{name: _with_none(column) for name, column in rolled.items()}}
            rows = zip(*(values[name] for name in kind.beside(model)), strict=True)
            return [Sample(0.0, place, row) for place, row in zip(places, rows, strict=True)]
        known = {**events.numbers, **rolled}
        watched = known[model.of]
        beside = [known[name] for name in kind.beside(model)]
        usable = np.logical_and.reduce([np.isfinite(column) for column in (watched, *beside)]).tolist()
        rows = zip(*(column.tolist() for column in beside), strict=True) if beside else [()] * len(places)
        return [
            Sample(value, place, row) if is_usable else None
            for value, place, row, is_usable in zip(watched.tolist(), places, rows, usable, strict=True)
        ]

    def _is_told(self, verdict: Verdict) -> bool:
        """True if the event has a result. Remembers the state, with which the next one is compared."""
        before = self._last
        if verdict is not _SKIPPED:
            self._last = [verdict.state, verdict.side]
        match self._plan.output:
            case "alarms":
                is_chosen = verdict.state == ALARM
            case "changes":
                is_chosen = before != self._last
            case _:
                is_chosen = True
        above = self._plan.above
        return is_chosen and (above is None or (verdict.statistic is not None and verdict.statistic > above))

    def _columns(self, verdicts: Sequence[Verdict]) -> dict[str, list[Any]]:
        states, sides, statistics, limits, sinces, owns = [*zip(*verdicts, strict=True)] or [()] * 6
        serials = [None if since is None else since[0] for since in sinces]
        times = [None if since is None else since[1] for since in sinces]
        names = [self._kind.name] * len(verdicts)
        common = zip(VERDICT, (names, states, sides, statistics, limits, times, serials), strict=True)
        own_names = [*self._kind.writes(self._plan.model)]
        own = {name: [row[n] if row else None for row in owns] for n, name in enumerate(own_names)}
        return {**{name: [*values] for name, values in common}, **own}


def _with_none(numbers: Floats) -> list[float | None]:
    return [None if math.isnan(number) else number for number in numbers.tolist()]
