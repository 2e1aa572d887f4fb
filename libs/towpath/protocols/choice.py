"""Choose the strategy that moves a job."""

from __future__ import annotations

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.protocols.table import Strategy, strategies

ASKED_FOR = "asked for"
"""The reason of a strategy that the user named."""


def choose(spec: JobSpec, wanted: str) -> tuple[Strategy, str]:
    """Return the strategy to move the job with, and the reason for it.

    Raises `TowpathError` (not allowed) for a strategy that cannot work for the job's operator.
    """
    if wanted == StrategyName.AUTO:
        return _suitable(spec)
    strategy = strategies().get(wanted)
    obstacle = "there is no such strategy" if strategy is None else strategy.obstacle(spec)
    if strategy is None or obstacle is not None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"strategy {str(wanted)!r} cannot move {spec.name}: {obstacle}",
            field="strategy",
            value=str(wanted),
            allowed=[*(s.name for s in strategies().values() if s.obstacle(spec) is None), StrategyName.AUTO],
        )
    return strategy, ASKED_FOR


def _suitable(spec: JobSpec) -> tuple[Strategy, str]:
    for strategy in sorted(strategies().values(), key=lambda s: s.auto_rank):
        reason = strategy.suits(spec)
        if reason is not None:
            return strategy, reason
    raise AssertionError("handover suits every job that nothing else suits")
