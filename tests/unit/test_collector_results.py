"""Results as the live page shows them: whole where they are small objects, otherwise their size alone."""

from __future__ import annotations

import json

import pytest

from towpath.collector.results import shown
from towpath.contracts.live import MAX_RESULT_BYTES, KeptResult
from towpath.streams.pages import StoredMessage


def stored(body: bytes) -> StoredMessage:
    return StoredMessage(serial=7, subject="sink.jfk.jfk.a.1", headers={}, body=body)


def test_result_when_a_small_object_then_is_shown_whole() -> None:
    body = json.dumps({"job": "a", "values": {"count": 3}}).encode()
    assert shown(stored(body)) == KeptResult(serial=7, bytes=len(body), body=json.loads(body))


@pytest.mark.parametrize(
    "body",
    [b"", b"no json", b"[1, 2]", b"\xff", json.dumps({"text": "x" * MAX_RESULT_BYTES}).encode()],
    ids=["empty", "text", "list", "bytes", "large"],
)
def test_result_when_large_or_no_object_then_only_its_size_is_told(body: bytes) -> None:
    assert shown(stored(body)) == KeptResult(serial=7, bytes=len(body), body=None)
