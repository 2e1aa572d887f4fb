"""Apply fault rules to the commands that an agent executes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from towpath.bus import Withheld
from towpath.contracts.message import Command, Model
from towpath.hooks.points import AGENT_COMMAND, Items

Handler = Callable[[Any], Awaitable[Model]]


def looked_at(handler: Handler) -> Handler:
    """Return the handler behind the point `agent.command`. It raises the errors of rules."""

    async def handle(command: Command[Any]) -> Model:
        if not AGENT_COMMAND.rules:
            return await handler(command)
        passed = await AGENT_COMMAND.through_async([command], _COMMANDS, job=_job(command))
        answer: Model | None = None
        for each in passed:
            answer = await handler(each)
        if answer is None:
            raise Withheld(f"a rule dropped {command.verb()}")
        return answer

    return handle


def _job(command: Command[Any]) -> str | None:
    """Return the job that a command is about."""
    assignment = getattr(command, "assignment", None)
    spec = getattr(assignment, "spec", None) or getattr(command, "spec", None)
    return getattr(command, "job", None) or getattr(spec, "name", None)


def _fields(command: Command[Any]) -> Mapping[str, Any]:
    return {"subject": command.to_subject(), "command": command.verb()}


_COMMANDS: Items[Command[Any]] = Items(
    payload=lambda command: command.to_bytes(),
    fields=_fields,
    with_payload=lambda command, body: type(command).from_bytes(body),
)
