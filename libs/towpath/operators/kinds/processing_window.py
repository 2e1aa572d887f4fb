"""The `processing_window` operator: aggregates per key of the events that one micro-batch finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.contracts.operators import ProcessingWindow
from towpath.operators.kind import OperatorKind, register
from towpath.operators.kinds.window import aggregate_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents
    from towpath.operators.processing_windows import MicroBatchWindow


def compile_processing_window(operator: ProcessingWindow, events: JobEvents) -> DataFrame:
    """The rows that `batch_window` groups, one micro-batch at a time."""
    from towpath.operators.processing_windows import check_inputs, rows_of

    check_inputs(events.assignment, operator)
    (rows,) = events.typed(operator.fields, required=operator.key)
    return rows_of(rows, operator)


def batch_window(operator: ProcessingWindow) -> MicroBatchWindow:
    """The maker of results from a micro-batch's rows."""
    from towpath.operators.processing_windows import MicroBatchWindow

    return MicroBatchWindow(operator)


PROCESSING_WINDOW = register(
    OperatorKind(
        model=ProcessingWindow,
        compile=compile_processing_window,
        reads=lambda operator: operator.fields,
        writes=aggregate_fields,
        nondeterminism=lambda operator: "two runs cut processing-time windows at different places",
        batch_s=lambda operator: operator.size_s,
        batch_events=lambda operator: operator.size_events,
        batch_window=batch_window,
    )
)
