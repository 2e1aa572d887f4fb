"""Lead messages through named points on their way out of a service and into one."""

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
    """A rule made sending fail. The sender sees it as a failure of the connection."""


async def leaving(kind: type[Message], subject: str, body: bytes) -> Sequence[bytes]:
    """Return the bodies to send instead of that of one message of this kind, or of an answer to it.

    Raises the error of a rule as an error of sending.
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
    """Return the bodies to receive instead of one. Raises `InjectedFault` if a rule refuses the message."""
    if not BUS_RECEIVE.rules or kind.exempt:
        return (body,)
    passed = await BUS_RECEIVE.through_async([_Envelope(subject, body)], _ENVELOPES)
    return [envelope.body for envelope in passed]
