"""A loaded rule at work in this process: asks its condition, does its actions, counts."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from random import Random
from time import monotonic
from typing import Any, TypeVar

from towpath.contracts.faults import AtPoint, LoadedRule, RuleCount
from towpath.contracts.metrics import Metric
from towpath.hooks.points import InjectedFault, Items, Passed
from towpath.lab.faults.clock import real_time
from towpath.lab.faults.conditions import Evaluation, compile_value
from towpath.lab.faults.fields import PassingFields
from towpath.lab.faults.registry import (
    POINT,
    Fault,
    HeldFault,
    Measurement,
    PointFault,
    Target,
    made,
)
from towpath.lab.faults.surroundings import Surroundings

log = logging.getLogger(__name__)

T = TypeVar("T")

WAIT_AGAIN_S = 0.05
"""How often what a rule holds up looks whether it still does."""

TELL_AGAIN_S = 0.1
"""Between counts that are told because of exceptions: a rule may raise thousands a second."""

ERROR_CHARACTERS = 300

_this_thread = threading.local()


def is_looking() -> bool:
    """Whether this thread is at work for a rule: what it calls meanwhile no rule looks at."""
    return getattr(_this_thread, "looking", False)


@contextmanager
def looking() -> Iterator[None]:
    """This thread is at work for rules."""
    before, _this_thread.looking = is_looking(), True
    try:
        yield
    finally:
        _this_thread.looking = before


class ActiveRule:
    """One version of a rule. Raises `TowpathError` when it is not one that this process understands."""

    def __init__(self, loaded: LoadedRule, surroundings: Surroundings) -> None:
        self.loaded = loaded
        self.expires_at = 0.0
        """Unix seconds; moved on with each renewal."""
        self.errors = 0
        self.last_error: str | None = None
        self._surroundings = surroundings
        self._ended = threading.Event()
        self._asking, self._telling = threading.Lock(), threading.Lock()
        self._told_at = -TELL_AGAIN_S
        self._evaluation = Evaluation(
            loaded.rule,
            loaded_at=loaded.loaded_at.timestamp(),
            shared=surroundings.shared_value,
            clock=real_time,
        )
        self.faults = _faults_of(loaded)

    @property
    def looked(self) -> int:
        """Occurrences that it has looked at."""
        return self._evaluation.looked

    @property
    def acted(self) -> int:
        """Occurrences that it has acted on."""
        return self._evaluation.acted

    def end(self) -> None:
        """The rule is not loaded any more: what it holds up goes on."""
        self._ended.set()

    def is_over(self) -> bool:
        """Whether it has ended, or nobody has renewed it: then it does nothing, whoever still asks it."""
        return self._ended.is_set() or real_time() >= self.expires_at

    def failed(self, error: Exception) -> None:
        """Count that the rule itself went wrong. What it looked at is left alone."""
        text = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        if self.last_error != text:
            log.warning("rule %s: %s", self.loaded.rule.name, text)
        self.errors += 1
        self.last_error = text

    def count(self) -> RuleCount:
        """How often it was looked at and acted in this process, so far."""
        return RuleCount(
            rule=self.loaded.rule.name,
            version=self.loaded.version,
            looked=self.looked,
            acted=self.acted,
            errors=self.errors,
            last_error=self.last_error,
        )

    def tell(self) -> None:
        """Report how often it was looked at and acted in this process, so far."""
        with self._telling:  # The last line of a file counts: no older count may follow a newer one.
            self._surroundings.reports.count(self.count())

    def _tell_before_raising(self) -> None:
        """A Python worker of Spark ends with what is raised, before anybody asks it for counts."""
        if monotonic() - self._told_at >= TELL_AGAIN_S:
            self._told_at = monotonic()
            self.tell()
            self._surroundings.reports.flush()

    def _context(self, context: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._surroundings.fields(), **context}

    def _valuer(self, fields: Mapping[str, Any]) -> Callable[[str], Any]:
        """Return the function that computes an expression for something with these fields."""

        def value(text: str) -> Any:
            try:
                return compile_value(text).value(fields, self._surroundings.shared_value)
            except LookupError:
                return None

        return value

    def _emit(self, measured: Sequence[Measurement]) -> None:
        for each in measured:
            metric = Metric(
                site=self._surroundings.scope,
                entity=each.entity or self._surroundings.process,
                name=each.name,
                value=each.value,
                at=datetime.fromtimestamp(real_time(), UTC),
                labels=dict(each.labels),
            )
            self._surroundings.reports.metric(metric)

    def _counts(self) -> dict[str, float]:
        """For expressions of actions; conditions count by themselves."""
        return {"count": self.looked, "acted": self.acted, "elapsed_s": self._evaluation.elapsed_s}

    # What passes a point

    def look(self, items: Sequence[T], access: Items[T], context: Mapping[str, Any]) -> Passed[T]:
        """Look at all items; see `PassageRule`."""
        job = self.loaded.rule.where.job
        if self.is_over() or is_looking() or (job is not None and context.get("job") != job):
            return Passed(items)
        with looking():
            try:
                return self._changed(items, access, self._context(context))
            except Exception as error:
                self.failed(error)
                return Passed(items)

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
                    fields = PassingFields(passed.items[place], access, {**context, **self._counts()})
                    self._emit(fault.measured(self._valuer(fields)))
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
            return self._evaluation.select(len(items), fields, self.failed)

    # What lasts

    def keep(self, target: Target) -> None:
        """Hold what the condition, looked at now, says is to be held, and release it otherwise."""
        try:
            about = self._context({"target": target.kind.value, "name": target.name})
            with self._asking:
                wanted = not self.is_over() and self._evaluation.holds(about)
        except Exception as error:
            self.failed(error)
            wanted = False
        for fault in self.faults:
            assert isinstance(fault, HeldFault)
            (fault.hold if wanted else fault.release)(target)

    # Waiting

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


def _faults_of(loaded: LoadedRule) -> list[Fault]:
    rule = loaded.rule
    kind = POINT if isinstance(rule.event, AtPoint) else rule.event.target.value
    return [
        made(action, kind, Random(f"{rule.seed} {rule.name} {place}"), f"actions.{place}")
        for place, action in enumerate(rule.actions)
    ]


def _places_after(before: Sequence[Any], hits: Sequence[int], after: Sequence[Any]) -> Sequence[int]:
    """Where the items that a rule is about are after an action: those it hit, and those it made."""
    if after is before:
        return hits
    hit = {id(before[place]) for place in hits}
    others = {id(item) for item in before} - hit
    return [place for place, item in enumerate(after) if id(item) not in others]
