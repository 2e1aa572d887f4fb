"""Compile a chain: each step reads the results of the one before, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import Chain, Operator, Python, Step
from towpath.operators.columns import first_line
from towpath.operators.job_events import InputEvents, JobEvents, StepEvents
from towpath.operators.kind import keeps_state, kind_of
from towpath.streams.encoding import CLOSED
from towpath.streams.reading import INPUT, TEXT

_OPERATOR = "operator."
_CHECK = "spark.sql.streaming.unsupportedOperationCheck"


def results_of_steps(chain: Chain, events: JobEvents) -> DataFrame:
    """The results of a chain's last step. Raises `TowpathError` that names the step at fault."""
    assert isinstance(events, InputEvents), "no chain is a step of another"
    first, *others = chain.steps
    events = replace(events, keeps_text=any(kind_of(step).rejects(step) for step in others))
    joining = _joining(chain, len(events.positions))
    with _naming(0):
        made = [_compiled(first, each) for each in (events.by_input() if joining else [events])]
    for number, step in enumerate(others, 1):
        keeps = keeps_state(chain.steps[number - 1])
        branches = [made] if number >= joining else [[frame] for frame in made]
        with _naming(number):
            made = [
                _compiled(step, StepEvents(events.assignment, frames, number, branch, keeps))
                for branch, frames in enumerate(branches)
            ]
    (results,) = made
    # Of a window over several inputs none is its own.
    return results.drop(TEXT, *([INPUT] if CLOSED in results.columns else []))


@contextmanager
def state_behind_windows_allowed(spark: SparkSession, operator: Operator) -> Iterator[None]:
    """Let a query start inside the block whose Python step keeps state behind a window.

    Spark computes such plans, with one watermark for each of the two, and yet refuses them.
    """
    steps = operator.steps if isinstance(operator, Chain) else []
    stateful = [step.kind for step in steps if keeps_state(step)]
    if not ("window" in stateful and stateful[-1] != "window"):
        yield
        return
    before = spark.conf.get(_CHECK)
    spark.conf.set(_CHECK, "false")
    try:
        yield
    finally:
        spark.conf.set(_CHECK, str(before))


def _joining(chain: Chain, inputs: int) -> int:
    """The step that joins the inputs. A window gives each of them a watermark of its own."""
    watermarked = [number for number, step in enumerate(chain.steps) if kind_of(step).watermarked(step)]
    joining = watermarked[0] if watermarked and inputs > 1 else 0
    for number, step in enumerate(chain.steps[:joining]):
        if isinstance(step, Python):
            raise TowpathError(
                ErrorCode.INVALID,
                "a window gives each input a watermark, and a python step before it would join them: merge "
                "the inputs first",
                field=f"operator.steps.{number}",
                value=step.entry,
                allowed="one input, or a python step behind the window",
            )
    return joining


def _compiled(step: Step, events: JobEvents) -> DataFrame:
    return kind_of(step).compile(step, events)


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """Let errors name the step."""
    place = f"{_OPERATOR}steps.{number}"
    try:
        yield
    except AnalysisException as error:
        raise TowpathError(ErrorCode.SCHEMA_MISMATCH, first_line(error), field=place) from error
    except TowpathError as error:
        field = error.detail.field or ""
        named = f"{place}.{field.removeprefix(_OPERATOR)}" if field.startswith(_OPERATOR) else place
        raise TowpathError.of(error.detail.model_copy(update={"field": named})) from error
