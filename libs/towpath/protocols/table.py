"""Which table an operation follows."""

from __future__ import annotations

from towpath.contracts.commands import OperationKind, StrategyName
from towpath.protocols.operations.deploy import DEPLOY
from towpath.protocols.operations.remove import REMOVE, REMOVE_AND_PURGE
from towpath.protocols.operations.update import ADJUST, REDIRECT, UPDATE
from towpath.protocols.record import OperationRecord
from towpath.protocols.step import Strategy
from towpath.protocols.strategies.general import GENERAL
from towpath.protocols.strategies.handover import HANDOVER
from towpath.protocols.strategies.parallel import PARALLEL
from towpath.protocols.strategies.restart import RESTART

MIGRATIONS: dict[StrategyName, Strategy] = {
    StrategyName.RESTART: RESTART,
    StrategyName.GENERAL: GENERAL,
    StrategyName.PARALLEL: PARALLEL,
    StrategyName.HANDOVER: HANDOVER,
}
"""How a job can change site."""

STRATEGIES: tuple[Strategy, ...] = (
    DEPLOY,
    ADJUST,
    UPDATE,
    REDIRECT,
    REMOVE,
    REMOVE_AND_PURGE,
    *MIGRATIONS.values(),
)
"""All tables, for tests and documentation."""


def strategy_of(record: OperationRecord) -> Strategy:
    """The table of an operation: a function of its record alone, so that every coordinator agrees."""
    match record.kind:
        case OperationKind.DEPLOY:
            return DEPLOY
        case OperationKind.UPDATE:
            return _changing(record)
        case OperationKind.REMOVE:
            return REMOVE_AND_PURGE if record.purge else REMOVE
        case OperationKind.MIGRATE:
            assert record.strategy is not None, "a migration has a strategy"
            return MIGRATIONS[record.strategy]


def _changing(record: OperationRecord) -> Strategy:
    """The table of an update."""
    if record.is_adjustment:
        return ADJUST
    return REDIRECT if record.is_redirect else UPDATE
