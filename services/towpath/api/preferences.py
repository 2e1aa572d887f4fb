"""Headers with which a client says how it wants a change to be carried out."""

from __future__ import annotations

import re

from aiohttp import web

from towpath.api.problems import refusal
from towpath.contracts.errors import ErrorCode
from towpath.contracts.message import new_identifier
from towpath.contracts.rest import IDEMPOTENCY_KEY_PATTERN, MAX_WAIT_S

_WAIT = re.compile(r"\s*wait\s*=\s*\"?([0-9]{1,9})\"?\s*(;.*)?", re.IGNORECASE)


def command_identifier(request: web.Request) -> str:
    """The identifier of the command: the `Idempotency-Key`, or a fresh one."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return new_identifier()
    if re.fullmatch(IDEMPOTENCY_KEY_PATTERN.strip("^$"), key) is None:
        raise refusal(
            400,
            ErrorCode.INVALID,
            "not readable as a key",
            field="Idempotency-Key",
            value=key[:200],
            allowed=IDEMPOTENCY_KEY_PATTERN,
        )
    return key.strip('"')


def wait_s(request: web.Request) -> int:
    """How long the client prefers to wait for the end, seconds (RFC 7240): 0 unless it says.

    Preferences are no conditions: what is not understood is passed over.
    """
    for header in request.headers.getall("Prefer", []):
        for preference in header.split(","):
            if (found := _WAIT.fullmatch(preference)) is not None:
                return min(int(found[1]), MAX_WAIT_S)
    return 0
