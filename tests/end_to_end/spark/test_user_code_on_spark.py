"""User code in an engine's Spark session: its inputs, its results, and versions side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from running.operators import UPSTREAM, assignment, compiled, messages, run
from running.promises import promise
from towpath.contracts.errors import ErrorCode, TowpathError

pytestmark = promise("user code")

SAME = "def run(events, parameters):\n    return events\n"

PACKAGE = """
from pyspark.sql import functions as F

def run(events, parameters):
    from versioned.late import suffix

    def version(_):
        from versioned.constants import VERSION
        return VERSION + suffix()

    return events.withColumn("version", F.udf(version, "string")("v"))
"""


def job(folder: Path, modules: dict[str, str], entry: str, **more: Any) -> dict[str, Any]:
    for name, code in modules.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    return {"kind": "python", "entry": entry, "artefact": str(folder), **more}


def versioned(folder: Path, version: str) -> dict[str, Any]:
    modules = {
        "versioned/__init__.py": "",
        "versioned/constants.py": f"VERSION = {version!r}\n",
        "versioned/late.py": "def suffix():\n    return '!'\n",
        "versioned/job.py": PACKAGE,
    }
    return job(folder, modules, "versioned.job:run", fields={"v": "long"})


def plan(session: SparkSession, operator: dict[str, Any], *bodies: Any) -> DataFrame:
    return compiled(assignment(operator), messages(session, *bodies))


def versions(frame: DataFrame) -> set[str]:
    return {row["values"]["version"] for row in frame.collect()}


def test_packages_when_two_jobs_bring_versions_of_one_then_each_runs_its_own(
    session: SparkSession,
    tmp_path: Path,
) -> None:
    old, new = (plan(session, versioned(tmp_path / v, v), {"v": 1}, {"v": 2}) for v in ("one", "two"))

    for _ in range(3):
        assert versions(old) == {"one!"}
        assert versions(new) == {"two!"}
    assert not [name for name in sys.modules if name.startswith("versioned")]


def test_modules_of_the_engine_when_code_brings_some_of_the_same_name_then_they_stay(
    session: SparkSession,
    tmp_path: Path,
) -> None:
    import json

    modules = {"shadowing.py": SAME, "pandas.py": "raise SystemExit('not the real one')", "json.py": ""}
    outcome = run(job(tmp_path, modules, "shadowing:run"), messages(session, {"v": 1}))

    assert outcome.values == [{"v": 1}]
    assert sys.modules["json"] is json


def test_fields_when_none_are_declared_then_the_function_gets_the_whole_object(
    session: SparkSession,
    tmp_path: Path,
) -> None:
    code = "def run(events, p): return events.selectExpr('value as seen', 'serial', 'input', 'stored_at')"
    source = messages(session, {"v": 1.5, "nested": {"a": [1]}}, "no object", b'{"s":"\xff"}')

    outcome = run(job(tmp_path, {"whole.py": code}, "whole:run"), source)

    assert outcome.values == [{"seen": '{"v": 1.5, "nested": {"a": [1]}}'}]
    assert outcome.reasons == ["not a JSON object", "not UTF-8"]


def test_fields_when_none_are_declared_then_of_a_result_the_function_gets_its_values(
    session: SparkSession,
    tmp_path: Path,
) -> None:
    source = messages(session, {"values": {"v": 1}, "count": 1}, {"v": 1})

    outcome = run(job(tmp_path, {"same.py": SAME}, "same:run"), source, names=(UPSTREAM,))

    assert outcome.values == [{"v": 1}]
    assert outcome.reasons == ["field 'values': expected an object, as in every job's result"]


def test_value_when_the_function_makes_it_then_an_object_is_published_and_anything_else_is_a_member(
    session: SparkSession,
    tmp_path: Path,
) -> None:
    code = (
        "from pyspark.sql import functions as F\n"
        "def run(events, p):\n"
        "    return events.withColumn('value', F.get_json_object('value', '$.out'))\n"
    )
    made = ['{"a": 1}', "5", '{"a":1},"b":{}', '{"a":1},0],[{"b":2}', None]

    outcome = run(
        job(tmp_path, {"maker.py": code}, "maker:run"), messages(session, *({"out": m} for m in made))
    )

    assert outcome.values == [{"a": 1}, *({"value": text} for text in made[1:-1]), {}]


def test_function_when_it_exits_while_it_is_analysed_then_that_is_a_refusal(
    session: SparkSession,
    tmp_path: Path,
) -> None:
    code = "import sys\ndef run(events, p): sys.exit(3)\n"
    with pytest.raises(TowpathError, match="SystemExit: 3") as refused:
        plan(session, job(tmp_path, {"leaver.py": code}, "leaver:run"), {"v": 1})
    assert (refused.value.detail.code, refused.value.detail.field) == (ErrorCode.INVALID, "operator.entry")
