"""A rule at a named point: it looks at what passes, does its actions, and holds up what it delays."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from towpath.contracts.faults import LoadedRule
from towpath.contracts.metrics import Metric
from towpath.hooks.points import InjectedFault, Items, Passed
from towpath.lab.faults.clock import real_time
from towpath.lab.faults.conditions import compile_value
from towpath.lab.faults.registry import Measurement, PointFault
from towpath.lab.faults.reports import Reports
from towpath.lab.faults.rule_at_work import ProcessContext, RuleAtWork

T = TypeVar("T")

WAIT_AGAIN_S = 0.05
"""Between two looks of what is held up at whether its rule is still loaded."""

TELL_AGAIN_S = 0.1
"""Between counts that are told because of exceptions: a rule may raise thousands a second."""

_this_thread = threading.local()


@contextmanager
def _looking() -> Iterator[None]:
    """Mark this thread as at work for a rule: no rule looks at what it calls meanwhile."""
    before, _this_thread.looking = _is_looking(), True
    try:
        yield
    finally:
        _this_thread.looking = before


def _is_looking() -> bool:
    return getattr(_this_thread, "looking", False)


class PointRule(RuleAtWork):
    """One loading of a rule whose event is a named point. Any thread may come by with items."""

    def __init__(self, loaded: LoadedRule, context: ProcessContext, reports: Reports) -> None:
        """Raises `TowpathError` when this process does not understand the rule."""
        super().__init__(loaded, context)
        self.expires_at = 0.0
        """Unix seconds; moved on with each renewal."""
        self._reports = reports
        self._ended = threading.Event()
        self._asking = threading.Lock()
        self._told_at = -TELL_AGAIN_S

    def end(self) -> None:
        """Let go of what it holds up: the rule is not loaded any more."""
        self._ended.set()

    def is_over(self) -> bool:
        """Return true if it has ended, or no one has renewed it. Then it does nothing."""
        return self._ended.is_set() or real_time() >= self.expires_at

    def look(self, items: Sequence[T], access: Items[T], context: Mapping[str, Any]) -> Passed[T]:
        """Look at all items; see `PassageRule`."""
        job = self.loaded.rule.where.job
        if self.is_over() or _is_looking() or (job is not None and context.get("job") != job):
            return Passed(items)
        with _looking():
            try:
                return self._changed(items, access, {**self.context.fields(), **context})
            except Exception as error:
                self.failed(error)
                return Passed(items)

    def hold_up(self, seconds: float) -> None:
        """Wait, no longer than the rule is loaded."""
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0 and not self.is_over():
            self._ended.wait(min(left, WAIT_AGAIN_S))

    async def hold_up_async(self, seconds: float) -> None:
        """As `hold_up`, while other tasks go on."""
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0 and not self.is_over():  # noqa: ASYNC110
            await asyncio.sleep(min(left, WAIT_AGAIN_S))

    def _changed(self, items: Sequence[T], access: Items[T], context: Mapping[str, Any]) -> Passed[T]:
        hits = self._hits(items, access, context)
        passed = Passed(items)
        if not hits:
            return passed
        for fault in self.faults:
            assert isinstance(fault, PointFault)
            passed.wait_s += fault.wait_s(len(hits))
            if fault.measures:
                for place in hits:
                    self._measure(fault, PassingFields(passed.items[place], access, self._counted(context)))
            try:
                changed = fault.change(passed.items, hits, access)
            except InjectedFault as error:
                self._tell_before_raising()
                passed.error = error
                break
            hits = _places_after(passed.items, hits, changed)
            passed.items = changed
        return passed

    def _hits(self, items: Sequence[T], access: Items[T], context: Mapping[str, Any]) -> list[int]:
        def fields(place: int) -> Mapping[str, Any]:
            return PassingFields(items[place], access, context)

        with self._asking:
            return self.evaluation.select(len(items), fields, self.failed)

    def _counted(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add counts for the expressions of actions. Conditions count by themselves."""
        now = self.evaluation
        return {**context, "count": now.looked, "acted": now.acted, "elapsed_s": now.elapsed_s}

    def _measure(self, fault: PointFault, fields: Mapping[str, Any]) -> None:
        def value(text: str) -> Any:
            try:
                return compile_value(text).value(fields, self.context.shared)
            except LookupError:
                return None

        for each in fault.measured(value):
            self._reports.metric(self._metric(each))

    def _metric(self, measured: Measurement) -> Metric:
        return Metric(
            site=self.context.scope,
            entity=measured.entity or self.context.process,
            name=measured.name,
            value=measured.value,
            at=datetime.fromtimestamp(real_time(), UTC),
            labels=dict(measured.labels),
        )

    def _tell_before_raising(self) -> None:
        """A Python worker of Spark ends with the exception, before anything asks it for counts."""
        if monotonic() - self._told_at >= TELL_AGAIN_S:
            self._told_at = monotonic()
            self.tell(self._reports)
            self._reports.flush()


class PassingFields(dict[str, Any]):
    """The fields of one item that passes a point: its own, and what is the same for all items.

    Its payload is read when a condition names it: a bundle has none.
    """

    def __init__(self, item: Any, access: Items[Any], context: Mapping[str, Any]) -> None:
        super().__init__({**access.fields(item), **context})
        self._read_payload = partial(access.payload, item)

    def __missing__(self, name: str) -> Any:
        if name != "payload":
            raise KeyError(name)
        return self._read_payload()


def _places_after(before: Sequence[Any], hits: Sequence[int], after: Sequence[Any]) -> Sequence[int]:
    """Return where the items that a rule is about are after an action: those it hit, and those it made."""
    if after is before:
        return hits
    hit = {id(before[place]) for place in hits}
    others = {id(item) for item in before} - hit
    return [place for place, item in enumerate(after) if id(item) not in others]
