"""Check on Spark that a kind of operator does what it says about itself. Every kind passes these checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from running.operator_examples import EVENTS
from running.operators import DEVICE, STREAM, assigned, compiled, computed, messages
from towpath.contracts.operators import FieldType, Operator
from towpath.contracts.result import Result
from towpath.operators.kind import OperatorKind, user_code

TYPES: dict[FieldType | None, tuple[type, ...]] = {
    FieldType.STRING: (str,),
    FieldType.LONG: (int,),
    FieldType.DOUBLE: (int, float),
    FieldType.BOOLEAN: (bool,),
    FieldType.TIMESTAMP: (str,),
    None: (object,),
}
KEEP_STATE = {"Aggregate", "Deduplicate", "Distinct", "FlatMapGroupsWithState", "Join", "TransformWithState"}

NO_OBJECTS = [
    "", "null", "5", '"a"', '[{"a":1}]', '{"a":1', '{"a":1} x', '{"a":1}{"a":2}', "{'a':1}",
    b'{"a":1,"s":"\xff"}',
]  # fmt: skip
EMBEDDED = '{"a":1},"b":{}'
"""Harmless where the text itself does not become a part of the result."""


READ = ["Project", "Filter", "CollectMetrics"]
"""Nodes of every plan, from its end to its source: results, then events that fit, apart from the others."""
NODES: dict[str, list[str]] = {
    "chain": [
        *("Project", "Aggregate"),
        *("Project", "Filter", "CollectMetrics"),
        *("Project", "Filter", "CollectMetrics"),
        *("Project", "Filter", "CollectMetrics", "Project"),
    ],
    "clean": [*READ, "Project"],
    "filter": READ,
    "forward": READ,
    "map": [*READ, "Project"],
    "merge": READ,
    "predict": ["FlatMapGroupsInPandas", "Project", "MapInArrow", *READ],
    "processing_window": [*READ, "Project"],
    "python": READ,
    "query": [
        "Project",
        "FlatMapGroupsInPandas",
        "Project",
        "Generate",
        "Project",
        "Filter",
        "CollectMetrics",
    ],
    "window": ["Project", "Aggregate", *READ],
}
"""Kind of operator → the nodes of its example's plan. Spark plans all of them again for a micro-batch."""


def with_code(operator: Operator, folder: Path) -> Operator:
    """The operator; where it runs code of the user, with some that returns the events."""
    code = user_code(operator)
    if code is None:
        return operator
    module, _, function = code.entry.partition(":")
    (folder / f"{module}.py").write_text(f"def {function}(events, parameters):\n    return events\n")
    return operator.model_copy(update={"artefact": str(folder)})


def check_messages(session: SparkSession, kind: OperatorKind[Any], operator: Operator) -> None:
    """Results have the fields that it says it writes, and what is no JSON object is rejected as it came.

    A micro-batch that runs again makes the same messages.
    """
    bad = [*NO_OBJECTS, EMBEDDED] if kind.passes_on else NO_OBJECTS

    outcome = computed(assigned(operator), messages(session, *EVENTS, *bad))

    assert outcome.results
    for result in outcome.results.values():
        check_fields(kind, operator, result)
    serials = range(len(EVENTS) + 1, len(EVENTS) + len(bad) + 1)
    texts = [outcome.rejected[f"job/rejected/{STREAM}/{n}"].event for n in serials]
    assert texts == [text if isinstance(text, str) else text.decode(errors="replace") for text in bad]
    assert set(outcome.reasons) == {"not a JSON object", "not UTF-8"}
    assert computed(assigned(operator), messages(session, *EVENTS, *bad)).bodies == outcome.bodies


def check_fields(kind: OperatorKind[Any], operator: Operator, result: Result) -> None:
    """The fields of a result are those that the operator says it writes."""
    written = kind.writes(operator)
    if written is None:
        return
    found = {**(result.key or {}), **result.values}
    assert found.keys() <= written.keys()
    for name, value in found.items():
        assert value is None or isinstance(value, TYPES[written[name]]), f"{name}: {value!r}"
    beside = written.keys() - found.keys()
    assert beside <= {"count", "window_start", "window_end"}
    assert ("window_start" in written) == (result.window is not None)


def check_cuts(session: SparkSession, kind: OperatorKind[Any], operator: Operator) -> None:
    """Without state, and if results are the same in every run, they do not depend on how events are cut."""
    if kind.state(operator) is not None or kind.nondeterminism(operator) is not None:
        return
    events = messages(session, *EVENTS)
    whole = computed(assigned(operator), events)
    early = {name for name, result in whole.results.items() if result.serial <= 3}
    assert early
    part = computed(assigned(operator), events.where("serial <= 3"))
    assert part.bodies == {name: whole.bodies[name] for name in early}


def check_streaming_plan(session: SparkSession, kind: OperatorKind[Any], operator: Operator) -> None:
    """Its plan keeps state, and watermarks, only if it says so."""
    ticks = session.readStream.format("rate").load()
    stream = ticks.selectExpr("value AS serial", "timestamp AS stored_at", "X'7B7D' AS value")
    plan = compiled(assigned(operator, DEVICE), stream)
    nodes = set(nodes_of(plan._jdf.queryExecution().analyzed()))  # type: ignore[operator]
    assert kind.state(operator) is not None or not nodes & KEEP_STATE
    assert kind.watermarked(operator) == ("EventTimeWatermark" in nodes)


def check_nodes(session: SparkSession, kind: OperatorKind[Any], operator: Operator) -> None:
    """Its plan, as Spark optimises it, has no node that the operator does not need."""
    plan = compiled(assigned(operator), messages(session, *EVENTS))
    nodes = nodes_of(plan._jdf.queryExecution().optimizedPlan())  # type: ignore[operator]
    decoding = len(nodes) - 1 - nodes[::-1].index("MapInArrow")
    assert nodes[:decoding] == NODES[kind.name]


def nodes_of(plan: Any) -> list[str]:
    """The names of a plan's nodes, from its end to its sources."""
    return re.findall(r"^[\s:+~-]*([A-Z]\w+)", plan.toString(), re.M)


CHECKS = (check_messages, check_cuts, check_streaming_plan)
