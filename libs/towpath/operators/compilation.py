"""Compile an assignment to the Spark plan of its results, with its events read as the operator wants them."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.operators.columns import first_line
from towpath.operators.job_events import InputEvents, Read
from towpath.operators.kind import kind_of
from towpath.operators.processing_windows import MicroBatchWindow


def compile_job(assignment: Assignment, read: Read) -> DataFrame:
    """The results of a job, in columns that `towpath.streams.encoding` names.

    Rejected events are observed, see `rejections`. Where there is a `micro_batch_window`, these are the rows
    from which it makes the results of one micro-batch. The query must run in append mode, in a session whose
    time zone is UTC. Raises `TowpathError` that names the part of the spec at fault.
    """
    operator = assignment.spec.operator
    try:
        return kind_of(operator).compile(operator, InputEvents.of(assignment, read))
    except AnalysisException as error:
        raise TowpathError(ErrorCode.SCHEMA_MISMATCH, first_line(error), field="operator") from error


def micro_batch_window(assignment: Assignment) -> MicroBatchWindow | None:
    """The maker of results from a micro-batch's rows; None for operators whose plan makes them itself."""
    operator = assignment.spec.operator
    batch_window = kind_of(operator).batch_window
    return None if batch_window is None else batch_window(operator)
