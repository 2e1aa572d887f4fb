"""Send a command to a party of an operation until it answers, or until the step's time is over."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Protocol

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.message import Model
from towpath.contracts.migration import StepCommand
from towpath.protocols.clock import Clock

log = logging.getLogger(__name__)

LONGEST_ASK_S = 3600.0
"""A request without a deadline is sent again after this time."""

PAUSE_S = 0.5
"""Pause between attempts of a step that was refused for now, or must succeed."""

SILENCE = frozenset({ErrorCode.DEADLINE, ErrorCode.UNREACHABLE})
"""Errors that mean that no answer came."""


class Send(Protocol):
    """Sends a command to an agent, and repeats it at least every `attempt_s` until there is an answer."""

    def __call__(self, command: StepCommand[Any], *, deadline_s: float, attempt_s: float) -> Awaitable[Model]:
        """Return the agent's answer. Raises `TowpathError`."""
        ...


async def ask(
    send: Send,
    clock: Clock,
    command: StepCommand[Any],
    *,
    deadline_s: float,
    attempt_s: float,
    busy_s: float = 0.0,
    insist: bool = False,
) -> Model:
    """Send a command until the deadline: again after a refusal that may pass, with `insist` after any.

    A party that answers `busy` is alive and works. Each such answer starts the deadline again, for up to
    `busy_s` altogether. Raises `TowpathError` with the last refusal. When the party has fallen silent, the
    error also has what it answered before.
    """
    begun = clock.monotonic()
    end = begun + deadline_s
    said: ErrorDetail | None = None
    while True:
        left = max(end - clock.monotonic(), 0.05)
        try:
            return await send(command, deadline_s=min(left, LONGEST_ASK_S), attempt_s=min(attempt_s, left))
        except TowpathError as error:
            refusal, now = error.detail, clock.monotonic()
            if refusal.code not in SILENCE:
                said = refusal
            if refusal.code is ErrorCode.BUSY:
                end = max(end, min(now + deadline_s, begun + busy_s))
            if not (insist or refusal.retryable) or now + PAUSE_S >= end:
                if said in (None, refusal):
                    raise
                raise _behind(refusal, said) from error
            log.info("%s to %s: %s; again", command.verb(), command.addressee, error)
        await clock.sleep(PAUSE_S)


def _behind(silence: ErrorDetail, said: ErrorDetail) -> TowpathError:
    """Add the party's last refusal to an error that says only that no answer came."""
    message = f"{silence.message}; before: {said.one_line()}"
    return TowpathError.of(silence.model_copy(update={"message": message}))
