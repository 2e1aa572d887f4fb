"""Forecast the cost of a migration from the costs of earlier ones and the present size of the state."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from nats.errors import Error as NatsError

from towpath.contracts.commands import ConsistencyCheck, MigrationForecast, OperationKind, StrategyName
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import new_identifier
from towpath.contracts.site_commands import MeasureState
from towpath.coordinator.situation import Situation
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.protocols.table import Strategy, strategy_of

log = logging.getLogger(__name__)

MEASURE_S = 2.0
"""Time for the source to tell the size of its state. A forecast is not worth a longer wait."""

LOOK_BACK = 200
"""Operations that are searched for earlier migrations."""

LEARN_FROM = 9
"""Earlier migrations that count, the newest: machines and jobs change."""

WINDOWS_WAITED_FOR = 2
"""Windows after which the results of two runs usually agree with the check `results`, while there is nothing
to learn from. Serial numbers agree before one window closes."""

PLAIN_BYTES_PER_S = 10e6
"""Bytes of state that cross in a second on such a machine."""

TELLING_BYTES = 4_000_000
"""Least difference of two states, bytes: a smaller one says nothing about the speed."""


@dataclass(frozen=True)
class Cost:
    """The cost of an earlier migration."""

    job: str
    total_s: float
    state_bytes: int


async def forecast(record: OperationRecord, reason: str, situation: Situation) -> MigrationForecast:
    """Forecast the cost of a planned migration.

    A source gets `MEASURE_S` to tell the size of its state. After that its last known size counts."""
    before, after, strategy = record.entry_before, record.entry_after, strategy_of(record)
    costs = costs_of(await situation.registry.latest(LOOK_BACK), record)
    state_bytes, unsaid = 0, ""
    if strategy.carries_state:
        measured = await _measured(before, situation)
        state_bytes = last_known(costs, record.job) if measured is None else measured
        unsaid = "" if measured is not None else "; the source did not say in time how large its state is"
    waits = strategy.checks and record.check is ConsistencyCheck.RESULTS
    waiting_s = WINDOWS_WAITED_FOR * record.window_s if waits else 0.0
    total_s, basis = expected(costs, record.job, strategy, state_bytes, waiting_s=waiting_s)
    return MigrationForecast(
        job=record.job,
        source=before.site,
        target=after.site,
        strategy=StrategyName(strategy.name),
        reason=reason,
        total_s=round(total_s, 2),
        state_bytes=state_bytes,
        basis=basis + unsaid,
    )


async def _measured(before: JobEntry, situation: Situation) -> int | None:
    job = before.spec.name
    question = MeasureState(site=before.site, operation=f"forecast-{new_identifier()}", job=job)
    try:
        return (await situation.bus.request(question, deadline_s=MEASURE_S)).state_bytes
    except (TowpathError, NatsError, OSError) as error:
        log.warning("size of %s at %s: %s", job, before.site, error)
        return None


def costs_of(records: Sequence[OperationRecord], like: OperationRecord) -> list[Cost]:
    """Return the costs of completed migrations that were like this one, in the order of the records."""
    return [
        Cost(r.job, r.figures.total_s, r.figures.state_bytes)
        for r in records
        if r.kind is OperationKind.MIGRATE and _course(r) == _course(like) and r.figures is not None
    ]


def _course(record: OperationRecord) -> tuple[object, ...]:
    """Return the settings that decide how long a migration waits: the check, and the factor."""
    if not strategy_of(record).checks:
        return (record.strategy,)
    factor = record.factor if record.check is ConsistencyCheck.RESULTS else None
    return record.strategy, record.check, factor


def last_known(costs: Sequence[Cost], job: str) -> int:
    """Return the bytes that crossed when the job moved last; 0 when it never did."""
    return next((cost.state_bytes for cost in costs if cost.job == job), 0)


def expected(
    costs: Sequence[Cost], job: str, strategy: Strategy, state_bytes: int, *, waiting_s: float = 0.0
) -> tuple[float, str]:
    """Return the seconds that a migration with `state_bytes` takes, and the basis of that figure.

    `costs` has the newest first. `waiting_s` is the wait for equal results while there is nothing to learn
    from."""
    own = [cost for cost in costs if cost.job == job][:LEARN_FROM]
    learnt = own or list(costs)[:LEARN_FROM]
    if not learnt:
        total_s = strategy.plain_s + waiting_s + state_bytes / PLAIN_BYTES_PER_S
        return total_s, "no earlier migration: measured speed of a plain machine"
    per_byte_s = _seconds_per_byte(learnt)
    base_s = statistics.median(cost.total_s - cost.state_bytes * per_byte_s for cost in learnt)
    whose = f"of {job}" if own else "of other jobs"
    return max(
        base_s, 0.0
    ) + state_bytes * per_byte_s, f"the last {len(learnt)} {strategy.name} migration(s) {whose}"


def _seconds_per_byte(costs: Sequence[Cost]) -> float:
    """Return the median of the slopes between pairs (Theil and Sen): one outlier does not move it."""
    slopes = [
        (one.total_s - other.total_s) / (one.state_bytes - other.state_bytes)
        for one, other in combinations(costs, 2)
        if abs(one.state_bytes - other.state_bytes) >= TELLING_BYTES
    ]
    # Two migrations make one slope, which may be chance.
    slope = statistics.median(slopes) if len(slopes) > 1 else 0.0
    return slope if slope > 0 else 1 / PLAIN_BYTES_PER_S
