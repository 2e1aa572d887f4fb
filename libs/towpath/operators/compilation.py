"""From an assignment to the Spark plan of its results."""

from __future__ import annotations

from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.message import SiteName
from towpath.contracts.operators import (
    Clean,
    FieldType,
    Filter,
    Forward,
    Map,
    Merge,
    ProcessingWindow,
    Python,
    Window,
)
from towpath.operators.columns import (
    INPUT,
    REASON,
    SERIAL,
    STORED_AT,
    all_of,
    first_line,
    json_array,
    json_object,
)
from towpath.operators.expressions import check_names, condition, null_on_failure, value
from towpath.operators.json_events import named
from towpath.operators.parsing import parse
from towpath.operators.passage import COUNT, KEY, VALUES, WINDOW, pass_on
from towpath.operators.processing_windows import (
    MicroBatchWindow,
    check_processing_window,
    compile_processing_window,
)
from towpath.operators.publication import Publication, ResultParts
from towpath.operators.rules import broken_rule, check_patterns
from towpath.operators.user_code import compile_python, undeclared
from towpath.operators.windows import compile_window


def compile_job(assignment: Assignment, inputs: list[DataFrame], executed_at: SiteName) -> DataFrame:
    """The results and rejected events of a job: columns `position`, `message_id`, `rejected`, `body`.

    Messages of a micro-batch belong in the order of `position`. Of a `processing_window`, these are the
    rows from which `micro_batch_window` makes the messages of one micro-batch.

    `inputs[i]` holds the messages of `assignment.inputs[i]` in columns `serial`, `topic`,
    `stored_at` and `value` (bytes), streaming or not. The query is to run in append mode, in a
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
    try:
        return _compiled(assignment, inputs, Publication.of(assignment, executed_at))
    except AnalysisException as error:
        raise TowpathError(ErrorCode.SCHEMA_MISMATCH, first_line(error), field="operator") from error


def _compiled(assignment: Assignment, inputs: list[DataFrame], publication: Publication) -> DataFrame:
    operator = assignment.spec.operator
    if isinstance(operator, ProcessingWindow):
        check_processing_window(assignment, operator)
    if isinstance(operator, Forward | Merge):
        passed = [pass_on(m, s, i) for i, (m, s) in enumerate(zip(inputs, assignment.inputs, strict=True))]
        return _publish_passed(_union(passed), publication)
    if isinstance(operator, Python) and not operator.fields:
        passed = [pass_on(m, s, i) for i, (m, s) in enumerate(zip(inputs, assignment.inputs, strict=True))]
        return compile_python([undeclared(rows) for rows in passed], operator, publication)
    fields = declared_fields(operator)
    check_names([*fields], "operator.fields")
    parsed = [
        parse(messages, source, position, fields)
        for position, (messages, source) in enumerate(zip(inputs, assignment.inputs, strict=True))
    ]
    match operator:
        case Clean():
            return _clean(_union(parsed), operator, publication)
        case Filter():
            with null_on_failure(inputs[0].sparkSession):
                return _filter(_union(parsed), operator, publication)
        case Map():
            with null_on_failure(inputs[0].sparkSession):
                return _map(_union(parsed), operator, publication)
        case Window():
            return compile_window(parsed, operator, publication)
        case ProcessingWindow():
            return compile_processing_window(parsed[0], operator, publication)
        case Python():
            return compile_python(parsed, operator, publication)


def micro_batch_window(assignment: Assignment, executed_at: SiteName) -> MicroBatchWindow | None:
    """What makes messages of a micro-batch's rows; None for operators whose plan makes them itself."""
    operator = assignment.spec.operator
    if not isinstance(operator, ProcessingWindow):
        return None
    return MicroBatchWindow(operator, Publication.of(assignment, executed_at))


def declared_fields(
    operator: Clean | Filter | Map | Window | ProcessingWindow | Python,
) -> dict[str, FieldType]:
    """The fields an operator reads, with their types."""
    if isinstance(operator, Clean):
        return {name: rule.type for name, rule in operator.fields.items()}
    return operator.fields


def _union(rows: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, rows)


def _clean(rows: DataFrame, operator: Clean, publication: Publication) -> DataFrame:
    check_patterns(rows.sparkSession, operator.fields)
    judged = rows.withColumn(REASON, F.coalesce(named(REASON), broken_rule(operator.fields)))
    message_id = publication.event_id()
    if operator.identity:
        # An event that lacks a part of its identity is no repetition of another that lacks it.
        whole = all_of(F.col(name).isNotNull() for name in operator.identity)
        identity = publication.identities.of_values(json_array([F.col(name) for name in operator.identity]))
        message_id = F.when(whole, identity).otherwise(message_id)
    return publication.of_events(judged, message_id, _parts_of_event([F.col(n) for n in operator.fields]))


def _filter(rows: DataFrame, operator: Filter, publication: Publication) -> DataFrame:
    holds = condition(rows, operator.where, "operator.where")
    kept = rows.where(F.when(named(REASON).isNotNull(), F.lit(True)).otherwise(holds))
    fields = [F.col(name) for name in operator.fields]
    return publication.of_events(kept, publication.event_id(), _parts_of_event(fields))


def _map(rows: DataFrame, operator: Map, publication: Publication) -> DataFrame:
    selected = [
        value(rows, text, f"operator.select.{name}").alias(name) for name, text in operator.select.items()
    ]
    return publication.of_events(rows, publication.event_id(), _parts_of_event(selected))


def _parts_of_event(values: list[Column]) -> ResultParts:
    return ResultParts(
        values=json_object(values),
        serial=F.col(SERIAL),
        stored_at=F.col(STORED_AT),
        input=F.col(INPUT),
    )


def _publish_passed(rows: DataFrame, publication: Publication) -> DataFrame:
    parts = ResultParts(
        values=named(VALUES),
        serial=F.col(SERIAL),
        stored_at=F.col(STORED_AT),
        input=F.col(INPUT),
        window=named(WINDOW),
        count=F.coalesce(named(COUNT), F.lit("1")),
        key=named(KEY),
    )
    return publication.of_events(rows, publication.event_id(), parts)
