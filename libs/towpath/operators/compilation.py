"""Compile an assignment to the Spark plan of its results."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.message import SiteName
from towpath.operators.columns import first_line
from towpath.operators.job_events import JobEvents
from towpath.operators.kind import kind_of
from towpath.operators.processing_windows import MicroBatchWindow
from towpath.operators.publication import Publication


def compile_job(assignment: Assignment, inputs: list[DataFrame], executed_at: SiteName) -> DataFrame:
    """The results and rejected events of a job: columns `position`, `message_id`, `rejected`, `body`.

    Messages of a micro-batch belong in the order of `position`. Where there is a `micro_batch_window`, these
    are the rows from which it makes the messages of one micro-batch.

    `inputs[i]` holds the messages of `assignment.inputs[i]` in columns `serial`, `topic`,
    `stored_at` and `value` (bytes), streaming or not. The query must run in append mode, in a
    session whose time zone is UTC. Raises `TowpathError` that names the part of the spec at fault.
    """
    if len(inputs) != len(assignment.inputs):
        raise TowpathError(
            ErrorCode.INVALID,
            "every input of the job needs its messages",
            field="inputs",
            value=len(inputs),
            allowed=str(len(assignment.inputs)),
        )
    operator = assignment.spec.operator
    events = JobEvents(assignment, inputs, Publication.of(assignment, executed_at))
    try:
        return kind_of(operator).compile(operator, events)
    except AnalysisException as error:
        raise TowpathError(ErrorCode.SCHEMA_MISMATCH, first_line(error), field="operator") from error


def micro_batch_window(assignment: Assignment, executed_at: SiteName) -> MicroBatchWindow | None:
    """The maker of messages from a micro-batch's rows; None for operators whose plan makes them itself."""
    operator = assignment.spec.operator
    batch_window = kind_of(operator).batch_window
    if batch_window is None:
        return None
    return batch_window(operator, Publication.of(assignment, executed_at))
