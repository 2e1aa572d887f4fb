"""Read values out of events of the topic `site/metrics`, and out of the results of jobs. Pure functions.

An event of `site/metrics` is a flat object about one entity. Or it has one value in the form of RAINBOW's
storage agent: `metricID`, `entityID`, `val`, `timestamp` (ms), `units`, `desc`, `group`. What is no number is
no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from towpath.stored_values.stored_value import NOTHING, About, StoredValue
from towpath.telemetry.intervals import LATEST_S

_NAMES = {"NODE": "nodeID", "POD": "podName", "JOB": "podName", "LINK": "peerID"}
"""`entityType` → the field with the entity's name."""

_LABELS = ("nodeID", "podUUID", "podName", "podNamespace", "containerID", "containerName", "peerID")

_NOT_VALUES = frozenset(
    {*_LABELS, "entityID", "entityType", "agentID", "time", "timestamp", "group", "transient"}
)

_UNNAMED = "application"
"""Entity of values that say nothing of what they are about."""


def values_of_metrics(event: bytes, stored_at: float) -> list[StoredValue]:
    """Return the values of an event of `site/metrics`; none of one that is no object.

    `stored_at`, Unix seconds, is the time of values that have none.
    """
    found = _object(event)
    entity, at = _entity(found), _time(found, stored_at)
    is_transient = found.get("transient") is True
    if isinstance(metric := found.get("metricID"), str):
        about = About(_text(found, "units"), _text(found, "group"), _text(found, "desc"), _labels(found))
        named = {metric: found.get("val")}
    else:
        about = About(group=_text(found, "group"), labels=_labels(found))
        named = {name: value for name, value in found.items() if name not in _NOT_VALUES}
    return [StoredValue(entity, name, at, value, about, is_transient) for name, value in _numbers(named)]


def values_of_result(job: str, result: bytes, stored_at: float) -> list[StoredValue]:
    """Return the values of a job's result, or of a query's answer; none of what is not one.

    The time is the end of the result's window, where it has one. An answer's metric is its query, and its
    entity the job that answers. Of other results each field is a metric. A key is part of the entity.
    """
    found = _object(result)
    values, key, window = (_member(found, name) for name in ("values", "key", "window"))
    at = _moment(window.get("end"), stored_at)
    query = values.get("query")
    kind = "query" if isinstance(query, str) else "job"
    entity = ":".join([kind, job, *map(str, key.values())])
    labels = {str(name): str(value) for name, value in key.items()}
    about = About(group=job, labels=labels)
    return [StoredValue(entity, _metric(query, name), at, value, about) for name, value in _numbers(values)]


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _member(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _metric(query: Any, field: str) -> str:
    if not isinstance(query, str):
        return field
    return query if field == "value" else f"{query}.{field}"


def _entity(event: Mapping[str, Any]) -> str:
    kind = event.get("entityType")
    name = event.get("entityID") or event.get(_NAMES.get(str(kind), ""))
    if not isinstance(name, str):
        return _UNNAMED
    return f"{kind.lower()}:{name}" if isinstance(kind, str) else name


def _labels(event: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: event[name] for name in _LABELS if isinstance(event.get(name), str)} or NOTHING.labels


def _numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield name, float(value)


def _time(event: Mapping[str, Any], stored_at: float) -> float:
    milliseconds = event.get("timestamp")
    if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool):
        return _dated(milliseconds / 1000, stored_at)
    return _moment(event.get("time"), stored_at)


def _moment(text: Any, otherwise: float) -> float:
    if not isinstance(text, str):
        return otherwise
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return _dated(moment.timestamp(), otherwise) if moment.tzinfo else otherwise


def _dated(at: float, otherwise: float) -> float:
    """Return a moment if it is a date, as it is not if a device counts microseconds."""
    return at if 0 <= at < LATEST_S else otherwise


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""
