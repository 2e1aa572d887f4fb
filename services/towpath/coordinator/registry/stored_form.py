"""The form in which the registry keeps jobs and operations: JSON without default values.

With default values a job takes a third more room, and so does an operation, which has the job before and
after it. Only the `kind` of an operator is always written, because the reader needs it.
"""

from __future__ import annotations

import json
from typing import Any

from towpath.contracts.operators import plain_operator
from towpath.protocols.record import JobEntry, OperationRecord


def entry_text(entry: JobEntry) -> str:
    """Return a job's stored form. `JobEntry.from_json` reads it."""
    return _text(_entry_body(entry))


def record_text(record: OperationRecord) -> str:
    """Return an operation's stored form. `OperationRecord.from_json` reads it."""
    body = record.model_dump(mode="json", exclude_defaults=True, exclude={"before", "after"})
    for name, entry in (("before", record.before), ("after", record.after)):
        if entry is not None:
            body[name] = _entry_body(entry)
    return _text(body)


def _entry_body(entry: JobEntry) -> dict[str, Any]:
    body = entry.model_dump(mode="json", exclude_defaults=True)
    body["spec"]["operator"] = plain_operator(entry.spec.operator)
    return body


def _text(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
