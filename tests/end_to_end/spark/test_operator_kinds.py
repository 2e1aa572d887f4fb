"""Every registered kind of operator does what it says about itself, on a real Spark session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from running.operator_examples import example
from running.operator_plans import check_cuts, check_messages, check_nodes, check_streaming_plan, with_code
from running.promises import promise
from towpath.operators.kind import kinds


@promise("operators")
@pytest.mark.parametrize("name", sorted(kinds()))
def test_kind_when_it_computes_events_and_rubbish_then_all_of_both_come_out_as_it_says(
    session: SparkSession, tmp_path: Path, name: str
) -> None:
    check_messages(session, kinds()[name], with_code(example(name), tmp_path))


@pytest.mark.parametrize("check", [check_cuts, check_streaming_plan, check_nodes])
@pytest.mark.parametrize("name", sorted(kinds()))
def test_kind_when_it_computes_its_example_then_does_what_it_says(
    session: SparkSession, tmp_path: Path, name: str, check: Callable
) -> None:
    check(session, kinds()[name], with_code(example(name), tmp_path))
