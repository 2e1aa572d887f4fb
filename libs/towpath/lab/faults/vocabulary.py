"""The words of conditions: operators, functions, and what can be named at which event."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.contracts.faults import AtPoint, DataPoint, RuleEvent

OCCURRENCES: Mapping[str, str] = {
    "every N": "the Nth time, the 2Nth time, and so on, that the rule is looked at in a process",
    "probability P": "each time with probability P (0 to 1); the rule's seed decides",
    "once": "until the rule has acted, in each process",
    "first N": "until the rule has acted N times, in each process",
    "after T": "from T after the rule was loaded; T is a number with ms, s, m or h",
    "before T": "until T after the rule was loaded",
    "between T and T": "between two times after the rule was loaded",
}
"""Conditions on which time it is."""

OPERATORS: Mapping[str, str] = {
    "A and B, A or B, not A": "of conditions",
    "== != < <= > >=": "compare numbers or texts; what is missing is only equal to null",
    "X in Y, X not in Y": "X is one of a list, a part of a text, or a key",
    "X contains Y": "the same as Y in X",
    "X startswith Y": "of texts",
    "X endswith Y": "of texts",
    'X matches "P"': "a regular expression (RE2) occurs in a text",
    "+ - * / %": "of numbers; null when there is none, such as after a division by zero",
}

VALUE_FUNCTIONS: Mapping[str, tuple[int, int | None, str]] = {
    "abs": (1, 1, "a number without its sign"),
    "hash": (1, 1, "the same number, 0 to 2^32 - 1, for the same text or number, in each process"),
    "len": (1, 1, "how many characters, bytes of a payload, values or keys"),
    "lower": (1, 1, "a text in lower case"),
    "max": (1, None, "the largest number"),
    "min": (1, None, "the smallest number"),
    "number": (1, 1, "the number that a text says"),
}
"""Function → fewest arguments, most (null: any), meaning."""

COUNTER = "counter"

SHARED_FUNCTIONS: Mapping[str, str] = {
    "cpu_percent": "CPU that the processes of a scope take, percent of all the machine's cores together",
    "memory_percent": "memory that the processes of a scope take, percent of the machine's",
}
"""What the mesh measures of each scope."""

FUNCTIONS: Mapping[str, str] = {
    **OCCURRENCES,
    **OPERATORS,
    **{f"{name}(x)": meaning for name, (_, most, meaning) in VALUE_FUNCTIONS.items() if most == 1},
    **{f"{name}(x, …)": meaning for name, (_, most, meaning) in VALUE_FUNCTIONS.items() if most is None},
    f'{COUNTER}("name")': "counts up each time it is asked for, from 1, in each process: "
    'every 10th that has a topic is `topic == "a" and counter("a") % 10 == 0`',
    **{f"{name}(scope)": f"{meaning}; `site`: its own" for name, meaning in SHARED_FUNCTIONS.items()},
}
"""All that conditions may call, for people: how it is written → what it means."""

ANYWHERE: Mapping[str, str] = {
    "count": "how often this process has looked at the rule, this time included",
    "acted": "how often the rule has acted in this process",
    "site": "the scope of the process: a site, or hub",
    "process": "the name of the process",
    "worker": "in a Python worker of a Spark cluster: the number of its executor",
}

_PAYLOAD: Mapping[str, str] = {
    "payload": "what passes, as bytes",
    "event": "the JSON that the payload is; `event.delay` is a field of it",
}

_INPUT: Mapping[str, str] = {
    **_PAYLOAD,
    "job": "the job that reads",
    "topic": "the topic that the event was sent to",
    "serial": "the event's serial number",
}

_MESSAGE: Mapping[str, str] = {**_PAYLOAD, "subject": "the subject of the message"}

AT_POINTS: Mapping[DataPoint, Mapping[str, str]] = {
    DataPoint.SOURCE_READ: _INPUT,
    DataPoint.OPERATOR_BATCH: {
        "job": _INPUT["job"],
        "size": "how many events the bundle has",
        "serial": "the serial number of its first event",
    },
    DataPoint.OPERATOR_EVENT: _INPUT,
    DataPoint.SINK_PUBLISH: {
        **_PAYLOAD,
        "job": "the job that publishes",
        "topic": "the topic of the result",
        "serial": "the serial number of the newest event in the result",
    },
    DataPoint.ENGINE_PROGRESS: {**_PAYLOAD, "job": "the job whose micro-batch it is"},
    DataPoint.CHECKPOINT_SHIP: {
        "payload": "the bytes of the chunk",
        "path": "the file of the checkpoint that it is a part of",
        "offset": "where it begins in the file, bytes",
        "job": "the job whose checkpoint it is",
        "migration": "the migration that the chunk belongs to",
    },
    DataPoint.AGENT_COMMAND: {
        **_MESSAGE,
        "command": "the command's name, as in its subject",
        "job": "its job",
    },
    DataPoint.BUS_SEND: _MESSAGE,
    DataPoint.BUS_RECEIVE: _MESSAGE,
}
"""What can be named at each point, besides `ANYWHERE`."""


def names_at(event: RuleEvent) -> Mapping[str, str]:
    """What conditions can name at an event → what it is."""
    match event:
        case AtPoint(point=point):
            return {**ANYWHERE, **AT_POINTS[point]}
        case _:
            return ANYWHERE


KEYWORDS = frozenset(
    {"and", "or", "not", "in", "every", "probability", "once", "first", "after", "before", "between"}
    | {"startswith", "endswith", "contains", "matches", "true", "false", "null"}
)
