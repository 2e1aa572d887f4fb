"""Answers in place of a function."""

from __future__ import annotations

from typing import Any

from towpath.contracts.faults import Moment
from towpath.contracts.message import Model
from towpath.lab.faults.registry import Call, CallFault, fault


@fault("return_value")
class ReturnValue(CallFault):
    """Returns a value: at `entry` without calling the function, at `exit` instead of its result, at
    `exception` instead of failing."""

    class Parameters(Model):
        """Which value."""

        value: Any
        """What a JSON or YAML document can hold."""

    def act(self, call: Call) -> None:
        """Set what the caller gets."""
        call.result = self.parameters.value
        call.error = None
        call.answered = call.moment is Moment.ENTRY
