"""Observations: messages as subscribers received them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from towpath.checker.identity import Identity, IdentityOf, Unreadable
from towpath.contracts.result import Rejected, Result


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as a subscriber received it. A million fit into a gigabyte: bodies are parsed on demand."""

    identity: Identity
    payload: bytes
    """The text as received: two copies are the same message only if these are equal."""
    received_at: float
    """Unix seconds, the subscriber's clock."""
    connection: int = 1
    """Number of its subscriber's connection, from 1."""
    topic: str = ""
    subscriber: str = ""
    """Client id of the subscriber. A broker redelivers to the same subscriber only."""
    offset: int | None = None
    """Its place in the log, if the subscriber knows it."""
    dup: bool = False
    """MQTT's DUP flag: the broker has sent this before."""

    @property
    def body(self) -> dict[str, Any]:
        """The parsed JSON object; empty for a message that is no result."""
        return {} if isinstance(self.identity, Unreadable) else json.loads(self.payload)


def observe(
    payload: bytes,
    identity_of: IdentityOf,
    received_at: float,
    connection: int = 1,
    topic: str = "",
    subscriber: str = "",
    offset: int | None = None,
    dup: bool = False,
) -> ReceivedMessage:
    """Return the observation of a message. None is skipped.

    A message that does not fit the contracts `Result` and `Rejected` is `Unreadable`.
    """
    try:
        body = json.loads(payload)
        (Rejected if "reason" in body else Result).model_validate(body)
        identity = identity_of(body)
    except (ValueError, KeyError, TypeError) as error:
        reason = str(error).replace("\n", " ")[:200]
        identity = Unreadable(topic, reason, payload[:200].decode(errors="replace"), crc32(payload))
    return ReceivedMessage(identity, payload, received_at, connection, topic, subscriber, offset, dup)


def values_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the compared part: `values` of a result, or the text of a rejected event (reasons are prose)."""
    return body["values"] if "values" in body else {"event": body.get("event")}
