"""One message as a subscriber received it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from towpath.checker.identity import Identity, IdentityOf, Unreadable
from towpath.contracts.result import Rejected, Result


@dataclass(frozen=True, slots=True)
class Observation:
    """A result, when and how it came. A million of them fit into a gigabyte: the body is parsed on demand."""

    identity: Identity
    payload: bytes
    """As received: two copies are the same message only if these are equal."""
    received_at: float
    """Unix seconds, the subscriber's clock."""
    connection: int = 1
    """Which connection of its subscriber brought it, from 1."""
    topic: str = ""
    subscriber: str = ""
    """Client id of the subscriber. Redelivery is between one subscriber and its broker."""
    offset: int | None = None
    """Its place in the log, for a subscriber who is told."""
    dup: bool = False
    """MQTT's DUP flag: the broker says that it has sent this before."""

    @property
    def body(self) -> dict[str, Any]:
        """The parsed JSON object. Empty for a message that is no result."""
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
) -> Observation:
    """The observation of a message. Whatever the message is, it becomes one: nothing is skipped.

    A message that does not fit the contracts `Result` and `Rejected` is `Unreadable`.
    """
    try:
        body = json.loads(payload)
        (Rejected if "reason" in body else Result).model_validate(body)
        identity = identity_of(body)
    except (ValueError, KeyError, TypeError) as error:
        reason = str(error).replace("\n", " ")[:200]
        identity = Unreadable(topic, reason, payload[:200].decode(errors="replace"), crc32(payload))
    return Observation(identity, payload, received_at, connection, topic, subscriber, offset, dup)


def values_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The compared part: `values` of a result; of a rejected event its text, because reasons are prose."""
    return body["values"] if "values" in body else {"event": body.get("event")}
