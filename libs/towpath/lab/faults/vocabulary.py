"""Names and functions of conditions, and what can be named at which event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from towpath.contracts.faults import AtPoint, DataPoint, RuleEvent

OWN_SITE = "site"
"""Stands for the scope of the process itself, as a name and as an argument."""

SHARED_FUNCTIONS: Mapping[str, str] = {
    "cpu_percent": "CPU that the processes of a scope take, percent of all the machine's cores together",
    "memory_percent": "memory that the processes of a scope take, percent of the machine's",
}
"""Figures that the mesh measures of each scope."""

_OF_CEL: Mapping[str, tuple[str, str]] = {
    "contains": ('payload.contains("x")', "a text has a part"),
    "startsWith": ('topic.startsWith("x")', "a text begins so"),
    "endsWith": ('topic.endsWith("x")', "a text ends so"),
    "matches": ('payload.matches("x+")', "a regular expression occurs in a text"),
    "size": ("size(x)", "how many characters, bytes, values or keys"),
    "double": (
        "double(x)",
        "a number as a double: arithmetic needs numbers of one kind, as in double(x) / 1000.0",
    ),
    "int": ("int(x)", "a number or a text as an integer"),
    "uint": ("uint(x)", "a number or a text as an unsigned integer"),
    "string": ("string(x)", "a value as text"),
    "bytes": ("bytes(x)", "a text as bytes"),
}
"""Function of CEL → how it is written, and its meaning."""

CALLABLE = frozenset({*_OF_CEL, *SHARED_FUNCTIONS})
"""Functions that conditions may call."""

_MACROS: Mapping[str, str] = {
    "has(event.x)": "the event has this field; a condition on a field that is missing does not hold",
    "x in [1, 2]": "a value is one of a list, or a key of a map",
    "event.l.exists(x, x > 1)": "one of a list's values is such; all, exists_one, filter and map likewise",
}

_ANYWHERE: Mapping[str, str] = {
    "count": "how often this process has looked at the rule, this time included",
    "acted": "how often the rule has acted in this process; `acted < 3` lets it act three times",
    "elapsed_s": "seconds since the rule was loaded",
    "site": "the scope of the process: a site, or hub",
    "process": "the name of the process",
    "worker": "in a Python worker of a Spark cluster: the number of its executor, as text; null elsewhere",
}

_ON_TARGET: Mapping[str, str] = {
    "target": "the kind of target, such as process",
    "name": "the target's name",
}

_PAYLOAD: Mapping[str, str] = {
    "payload": "what passes, as text",
    "event": "the JSON object that the payload is, otherwise an empty map; `event.delay` is a field of it",
}

_INPUT: Mapping[str, str] = {
    **_PAYLOAD,
    "job": "the job that reads",
    "topic": "the topic that the event was sent to",
    "serial": "the event's serial number",
}

_MESSAGE: Mapping[str, str] = {**_PAYLOAD, "subject": "the subject of the message"}


@dataclass(frozen=True)
class PointDescription:
    """A point for users: what happens there, in which processes, and what conditions may name."""

    passing: str
    """A sentence: it happens whenever something passes."""
    names: Mapping[str, str]
    passed_in: str = ""
    """End of the names of processes in which something passes. Empty: all that run Python."""


_ENGINE, _AGENT = "engine", "agent"

POINT_DESCRIPTIONS: Mapping[DataPoint, PointDescription] = {
    DataPoint.SOURCE_READ: PointDescription("a task of Spark reads an event", _INPUT, _ENGINE),
    DataPoint.OPERATOR_BATCH: PointDescription(
        "a bundle of events comes to an operator",
        {
            "job": _INPUT["job"],
            "size": "how many events the bundle has",
            "serial": "the serial number of its first event",
        },
        _ENGINE,
    ),
    DataPoint.OPERATOR_EVENT: PointDescription("an event comes to an operator", _INPUT, _ENGINE),
    DataPoint.SINK_PUBLISH: PointDescription(
        "an engine publishes a result",
        {
            **_PAYLOAD,
            "job": "the job that publishes",
            "topic": "the topic of the result",
            "serial": "the serial number of the newest event in the result",
        },
        _ENGINE,
    ),
    DataPoint.ENGINE_PROGRESS: PointDescription(
        "Spark reports a micro-batch", {**_PAYLOAD, "job": "the job whose micro-batch it is"}, _ENGINE
    ),
    DataPoint.CHECKPOINT_SHIP: PointDescription(
        "an agent ships a chunk of a checkpoint",
        {
            "payload": "the chunk as text; bytes that are no UTF-8 are replaced",
            "path": "the file of the checkpoint that it is a part of",
            "offset": "where it begins in the file, bytes",
            "job": "the job whose checkpoint it is",
            "migration": "the migration that the chunk belongs to",
        },
        _AGENT,
    ),
    DataPoint.AGENT_COMMAND: PointDescription(
        "an agent has received a command",
        {**_MESSAGE, "command": "the command's name, as in its subject", "job": "its job"},
        _AGENT,
    ),
    DataPoint.BUS_SEND: PointDescription("a process sends a message on the bus", _MESSAGE),
    DataPoint.BUS_RECEIVE: PointDescription("a process receives a message from the bus", _MESSAGE),
}

_NAMES = tuple(point.names for point in POINT_DESCRIPTIONS.values())

SAMPLES: Mapping[str, object] = {
    **{name: "" for names in (_ANYWHERE, _ON_TARGET, *_NAMES) for name in names},
    **{"count": 1, "acted": 0, "elapsed_s": 0.0, "serial": 1, "size": 1, "offset": 0, "event": {}},
}
"""Name → a value of its type, on which expressions are tried when they are compiled."""


def names_at(event: RuleEvent) -> Mapping[str, str]:
    """Return names that conditions can use at an event → meaning."""
    match event:
        case AtPoint(point=point):
            return {**_ANYWHERE, **POINT_DESCRIPTIONS[point].names}
        case _:
            return {**_ANYWHERE, **_ON_TARGET}


def reference() -> dict[str, str]:
    """Return everything that conditions may name and call → meaning."""
    names: dict[str, str] = {**_ANYWHERE, **_ON_TARGET}
    for name in dict.fromkeys(name for offered in _NAMES for name in offered):
        at = [point for point, description in POINT_DESCRIPTIONS.items() if name in description.names]
        names[name] = f"{POINT_DESCRIPTIONS[at[0]].names[name]}; at {', '.join(at)}"
    figures = {
        f'{name}("jfk")': f"{meaning}; `{OWN_SITE}`: its own" for name, meaning in SHARED_FUNCTIONS.items()
    }
    return {**names, **dict(_OF_CEL.values()), **_MACROS, **figures}
