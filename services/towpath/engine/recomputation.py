"""Compute a range of a job's input once more, as one processing-time window."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, ResolvedInput
from towpath.engine.job_plan import compiling, source_options
from towpath.engine.settings import EngineSettings
from towpath.operators.columns import first_line
from towpath.operators.compilation import compile_job, micro_batch_window
from towpath.operators.kind import kinds
from towpath.streams.encoding import MessageEncoder
from towpath.streams.failures import EventsLost, failure_in
from towpath.streams.reading import Reading
from towpath.streams.source import FORMAT


def recompute_window(
    session: SparkSession, settings: EngineSettings, assignment: Assignment, after: int, through: int
) -> list[tuple[str, str]]:
    """Return message ids and bodies of the job's results over `after` < serial number ≤ `through`. Blocks.

    The results are exactly those of a micro-batch that had this range. Rejected events are left out. Raises
    `TowpathError` if the job has no processing-time window, if the range is empty, or if some of its events
    are not kept (events lost).
    """
    window = micro_batch_window(assignment)
    if window is None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "only a processing-time window covers whatever range it is given",
            field="operator.kind",
            value=assignment.spec.operator.kind,
            allowed=[name for name, kind in kinds().items() if kind.covers_batches],
        )
    if not 0 <= after <= through:
        raise TowpathError(
            ErrorCode.INVALID, "not a range", field="through", value=through, allowed=f"at least {after}"
        )

    def read(resolved: ResolvedInput, reading: Reading) -> DataFrame:
        bounds = {"after": str(after), "through": str(through)}
        options = {**source_options(settings, resolved), **reading.options(), **bounds}
        return session.read.format(FORMAT).options(**options).load()

    with compiling:
        results = window.results(compile_job(assignment, read), after, through)
    try:
        table = results.toArrow()
    except PySparkException as error:
        raise _failure(error) from error
    messages = MessageEncoder.of(assignment, settings.site).results(table)
    return [(message.identity, message.body.decode()) for message in messages]


def _failure(error: PySparkException) -> TowpathError:
    failure = failure_in(str(error))
    if failure is not None and failure.kind is EventsLost:
        return TowpathError(ErrorCode.EVENTS_LOST, failure.text, field="after")
    return TowpathError(ErrorCode.FAILED, first_line(error))
