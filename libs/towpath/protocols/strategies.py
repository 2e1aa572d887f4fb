"""Which table an operation follows."""

from __future__ import annotations

from towpath.contracts.commands import OperationKind, StrategyName
from towpath.protocols.deploy import DEPLOY
from towpath.protocols.general import GENERAL
from towpath.protocols.record import OperationRecord
from towpath.protocols.remove import REMOVE, REMOVE_AND_PURGE
from towpath.protocols.restart import RESTART
from towpath.protocols.step import Strategy
from towpath.protocols.update import UPDATE

STRATEGIES: tuple[Strategy, ...] = (DEPLOY, UPDATE, REMOVE, REMOVE_AND_PURGE, GENERAL, RESTART)
"""All tables, for tests and documentation."""


def strategy_of(record: OperationRecord) -> Strategy:
    """The table of an operation: a function of its record alone, so that every coordinator agrees."""
    match record.kind:
        case OperationKind.DEPLOY:
            return DEPLOY
        case OperationKind.UPDATE:
            return UPDATE
        case OperationKind.REMOVE:
            return REMOVE_AND_PURGE if record.purge else REMOVE
        case OperationKind.MIGRATE:
            return RESTART if record.strategy is StrategyName.RESTART else GENERAL
