"""Answers to queries as a subscriber gets them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from towpath.checker.observation import ReceivedMessage, observe
from towpath.lab.harness.answers import EPOCH, answer_identity
from towpath.queries.reference import Answer


def published(answer: Answer, **values: Any) -> ReceivedMessage:
    """Return an answer as a subscriber gets it."""
    end = EPOCH + timedelta(microseconds=answer.moment)
    body = {
        "job": "airports",
        "site": "cloud",
        "epoch": 1,
        "serial": 1,
        "stored_at": EPOCH.isoformat(),
        "count": 1,
        "key": {"query": answer.query, **dict(answer.key)},
        "window": {"start": end.isoformat(), "end": end.isoformat(timespec="milliseconds")},
        "values": {"value": answer.value, **values},
    }
    return observe(json.dumps(body).encode(), answer_identity, received_at=EPOCH.timestamp())
