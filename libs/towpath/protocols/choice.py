"""Which strategy moves a job: what suits it, and what cannot work."""

from __future__ import annotations

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import ProcessingWindow, Python, Window

ASKED_FOR = "asked for"
"""The reason of a strategy that the user named."""

LONGEST_TRIGGER_S = 20.0
"""Of a job that is handed over without being asked: `general` stops a job for a few seconds, which between
two such triggers nobody sees."""

_WINDOWS_ARE_WHERE_IT_RUNS = (
    "its windows lie where its operator runs, so source and target run at once until their results agree; "
    "no state is carried"
)
_WINDOWS_OF_SEVERAL_INPUTS = (
    "its windows lie where its operator runs, and serial numbers of several inputs cannot be compared"
)
_USER_CODE = "user code may give other results in other micro-batches, so only one site runs it at a time"
_NO_WATERMARK = (
    "its windows wait for no late event (watermark_s is 0), so which events count may depend on the "
    "micro-batches they fall into, and only one site runs it at a time"
)
_RARE_TRIGGERS = (
    "it computes every {trigger_s:g} s only, so a pause fits in between; running at both sites until they "
    "are level would take five such intervals"
)
_EVENTS_ALONE = (
    "its results depend on the events alone, so the target catches up while the source runs; no downtime"
)


def choose(spec: JobSpec, wanted: StrategyName) -> tuple[StrategyName, str]:
    """The strategy to move the job with, never `auto`, and why.

    Raises `TowpathError` (not allowed) for a strategy that cannot work for the job's operator.
    """
    if wanted is StrategyName.AUTO:
        return _suitable(spec)
    obstacle = _obstacle(spec, wanted)
    if obstacle is not None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{spec.name} cannot be moved so: {obstacle}",
            field="strategy",
            value=wanted.value,
            allowed=[s.value for s in StrategyName if _obstacle(spec, s) is None],
        )
    return wanted, ASKED_FOR


def _suitable(spec: JobSpec) -> tuple[StrategyName, str]:
    match spec.operator:
        case ProcessingWindow() if len(spec.inputs) > 1:
            return StrategyName.GENERAL, _WINDOWS_OF_SEVERAL_INPUTS
        case ProcessingWindow():
            return StrategyName.PARALLEL, _WINDOWS_ARE_WHERE_IT_RUNS
        case Python():
            return StrategyName.GENERAL, _USER_CODE
        case Window() as window if window.event_time is not None and window.watermark_s == 0:
            return StrategyName.GENERAL, _NO_WATERMARK
        case _ if spec.trigger_s > LONGEST_TRIGGER_S:
            return StrategyName.GENERAL, _RARE_TRIGGERS.format(trigger_s=spec.trigger_s)
        case _:
            return StrategyName.HANDOVER, _EVENTS_ALONE


def _obstacle(spec: JobSpec, strategy: StrategyName) -> str | None:
    """Why the strategy cannot work; None if it can, as those that stop the source always do."""
    by_processing_time = isinstance(spec.operator, ProcessingWindow)
    if strategy is StrategyName.PARALLEL and not by_processing_time:
        return f"only processing-time windows keep no state between results, and {spec.operator.kind} may"
    if strategy is StrategyName.PARALLEL and len(spec.inputs) > 1:
        return "serial numbers of several inputs cannot be compared"
    if strategy is StrategyName.HANDOVER and by_processing_time:
        return "two runs cut processing-time windows at different places, so their results are never equal"
    return None
