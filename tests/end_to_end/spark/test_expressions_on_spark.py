"""Users' Spark SQL is held to what Spark's own parser reads."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from running.refused_expressions import FIELDS, PASSED, REFUSED
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.spark_expressions import CALLABLE, CHANGING
from towpath.operators.expressions import value
from towpath.operators.parsed_expressions import parsed_refusal

LATE = [text for text, layer in REFUSED.items() if layer != "contract"]


@pytest.fixture(scope="module")
def rows(session: SparkSession) -> DataFrame:
    fields = ", ".join(f"`{name}` {kind}" for name, kind in FIELDS.items())
    return session.createDataFrame([], f"serial long, input int, stored_at timestamp, {fields}")


@pytest.mark.parametrize("text", LATE)
def test_expression_when_it_reaches_beyond_the_event_then_the_engine_refuses_it(
    rows: DataFrame, text: str
) -> None:
    with pytest.raises(TowpathError) as refused:
        value(rows, text, "operator.where")

    detail = refused.value.detail
    assert detail.code in (ErrorCode.NOT_ALLOWED, ErrorCode.SCHEMA_MISMATCH)
    assert (detail.field, detail.value) == ("operator.where", text)
    try:
        why = parsed_refusal(rows.sparkSession, text, rows.columns)
    except PySparkException:
        return  # Spark's parser refuses it.
    assert why is not None


@pytest.mark.parametrize("text", PASSED)
def test_expression_when_it_is_a_function_of_the_event_then_the_engine_compiles_it(
    rows: DataFrame, text: str
) -> None:
    rows.select(value(rows, text, "operator.where")).collect()


@pytest.mark.parametrize("text", ["at > 'now'", "at = ' Yesterday '"])
def test_expression_when_a_text_becomes_the_time_of_reading_then_the_engine_refuses_it(
    rows: DataFrame, text: str
) -> None:
    with pytest.raises(TowpathError, match="time of reading"):
        value(rows, text, "operator.where")


def test_expression_when_it_names_a_variable_of_the_process_then_it_stays_a_text(
    session: SparkSession, rows: DataFrame
) -> None:
    one = session.createDataFrame([(1,)], "a long")

    assert one.select(value(one, "'${env:HOME}'", "operator.where")).collect()[0][0] == "${env:HOME}"


def test_session_when_sql_names_a_file_then_spark_opens_none(session: SparkSession) -> None:
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.sql("select * from text.`/etc/hostname`")


def test_functions_when_spark_lists_its_own_then_it_has_each_that_is_named(session: SparkSession) -> None:
    registry = session._jsparkSession.sessionState().functionRegistry()  # pyright: ignore
    known = {*registry.listFunction().mkString(" ").split()}

    assert CALLABLE - {name.rpartition(".")[2] for name in known} == set()
    assert CHANGING - {name.rpartition(".")[2] for name in known} == set()
