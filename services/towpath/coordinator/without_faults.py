"""Answers the injector's commands in a mesh without fault rules, where no injector runs."""

from __future__ import annotations

from typing import Any

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import FAULT_COMMANDS, ListRules, RuleList
from towpath.contracts.message import Command


async def serve(bus: Bus) -> None:
    """Say that no rule is loaded; refuse everything else with the setting's name."""
    for kind in FAULT_COMMANDS:
        await bus.serve(kind, _answer)


async def _answer(command: Command[Any]) -> RuleList:
    if isinstance(command, ListRules):
        return RuleList(rules=[])
    raise TowpathError(
        ErrorCode.NOT_ALLOWED,
        "fault rules are off in this mesh; switch them on with `towpath up --faults`",
        field="faults.enabled",
        value=False,
        allowed="true",
    )
