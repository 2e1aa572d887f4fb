"""Access of fault rules to the events of a stream, one by one and in bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.contracts.data_plane import topic_of
from towpath.hooks.points import Items


@dataclass(frozen=True)
class ChangedMessage:
    """A message of a stream whose content a rule has changed. It keeps its place in the stream."""

    stream_sequence: int
    subject: str
    published: Any
    payload: bytes
    headers: Mapping[str, Any] | None = None


def _payload(message: Any) -> bytes:
    return message.payload


def _fields(message: Any) -> Mapping[str, Any]:
    return {"topic": topic_of(message.subject), "serial": message.stream_sequence}


def _with_payload(message: Any, payload: bytes) -> ChangedMessage:
    return ChangedMessage(
        message.stream_sequence, message.subject, message.published, payload, message.headers
    )


def _fields_of_bundle(messages: Sequence[Any]) -> Mapping[str, Any]:
    return {"size": len(messages), "serial": messages[0].stream_sequence}


def _no_payload(messages: Sequence[Any], payload: bytes = b"") -> Any:
    raise TypeError("a bundle has no payload: its events have, at operator.event")


EVENTS: Items[Any] = Items(_payload, _fields, _with_payload)
BUNDLES: Items[Sequence[Any]] = Items(_no_payload, _fields_of_bundle, _no_payload)
