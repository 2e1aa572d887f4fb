"""Every registered kind of operator says what is consistent, and says it without Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from running.operator_examples import EXAMPLES, WIRE_KINDS, example
from running.operator_facts import CHECKS
from towpath.operators.kind import kinds, register

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
sys.path.insert(0, sys.argv[1])
from running.operator_examples import EXAMPLES, example
from running.operator_facts import CHECKS
from towpath.operators.kind import kinds
for name, kind in kinds().items():
    for check in CHECKS:
        check(kind, example(name))
"""


def test_kinds_when_loaded_then_are_those_of_the_wire_and_each_has_an_example() -> None:
    assert sorted(kinds()) == sorted(WIRE_KINDS) == sorted(EXAMPLES)


def test_kind_when_its_name_is_taken_then_is_refused() -> None:
    with pytest.raises(ValueError, match="there are two operators 'filter'"):
        register(kinds()["filter"])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", sorted(kinds()))
def test_kind_when_asked_about_its_example_then_its_facts_fit_together(name: str, check: Callable) -> None:
    check(kinds()[name], example(name))


def test_facts_when_there_is_no_spark_then_are_known_all_the_same() -> None:
    command = [sys.executable, "-c", WITHOUT_SPARK, str(Path(__file__).parents[1])]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
