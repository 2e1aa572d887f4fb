"""Find the events of a stream that a job with declared fields should accept, in plain Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from towpath.checker.clean_truth import clean_truth
from towpath.contracts.operators import Clean, FieldRule, FieldType

SERIAL = "serial"


class StoredEvent(NamedTuple):
    """An event as a stream keeps it."""

    serial: int
    payload: bytes


def accepted_events(
    events: Iterable[StoredEvent],
    fields: Mapping[str, FieldType],
    required: Sequence[str],
    *,
    from_device: bool,
) -> pd.DataFrame:
    """Return the declared fields of each event that fits them, and its `serial`.

    A field may be missing unless it is `required`. Fields of a job's result are looked up in its `values`,
    then in its `key`; `window_start`, `window_end` and `count` also in its envelope.
    """
    stored = list(events)
    payloads = [event.payload if from_device else as_from_device(event.payload) for event in stored]
    if not fields:
        objects = zip(stored, payloads, strict=True)
        return pd.DataFrame({SERIAL: [e.serial for e, text in objects if json_object(text) is not None]})
    rules = {name: FieldRule(type=kind, required=name in required) for name, kind in fields.items()}
    truth = clean_truth(payloads, Clean(fields=rules))
    rows = [{SERIAL: stored[position].serial, **values} for position, values in truth.accepted.items()]
    return pd.DataFrame(rows, columns=pd.Index([SERIAL, *fields]))


def as_from_device(payload: bytes) -> bytes:
    """Return the fields of a job's result as a device would send them; nothing if it is no result."""
    body = json_object(payload)
    if body is None or not isinstance(body.get("values"), dict):
        return b""
    window = body.get("window") or {}
    envelope = {
        "window_start": window.get("start"),
        "window_end": window.get("end"),
        "count": body.get("count"),
    }
    fields: dict[str, Any] = {}
    for part in (envelope, body.get("key") or {}, body["values"]):
        fields |= {name: value for name, value in part.items() if value is not None}
    return json.dumps(fields).encode()


def json_object(payload: bytes) -> dict[str, Any] | None:
    """Return the JSON object that a payload holds; None if it holds anything else."""
    try:
        body = json.loads(payload)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None
