"""The named points that messages pass on their way out of a service and into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import nats.errors

from towpath.contracts.message import Message
from towpath.hooks.points import BUS_RECEIVE, BUS_SEND, InjectedFault, Items


@dataclass(frozen=True)
class _Envelope:
    subject: str
    body: bytes


def _fields(envelope: _Envelope) -> Mapping[str, Any]:
    return {"subject": envelope.subject}


_ENVELOPES = Items(
    payload=lambda envelope: envelope.body,
    fields=_fields,
    with_payload=lambda envelope, body: replace(envelope, body=body),
)


class SendingFailed(InjectedFault, nats.errors.Error):
    """A rule made sending fail: to the sender as if the connection had."""


async def leaving(kind: type[Message], subject: str, body: bytes) -> Sequence[bytes]:
    """The bodies to send instead of one of a message of this kind, or of an answer to it.

    Raises what a rule means to raise, as an error of sending.
    """
    if not BUS_SEND.rules or kind.exempt:
        return (body,)
    try:
        passed = await BUS_SEND.through_async([_Envelope(subject, body)], _ENVELOPES)
    except InjectedFault as error:
        if isinstance(error, nats.errors.Error | OSError):
            raise
        raise SendingFailed(str(error)) from error
    return [envelope.body for envelope in passed]


async def arriving(kind: type[Message], subject: str, body: bytes) -> Sequence[bytes]:
    """The bodies to take in instead of one that came. Raises `InjectedFault` if a rule means to refuse it."""
    if not BUS_RECEIVE.rules or kind.exempt:
        return (body,)
    passed = await BUS_RECEIVE.through_async([_Envelope(subject, body)], _ENVELOPES)
    return [envelope.body for envelope in passed]
