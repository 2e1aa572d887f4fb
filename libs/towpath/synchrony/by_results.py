"""The thesis's way: operators hand over the output between closed windows (Algorithms 6.1 to 6.4)."""

from __future__ import annotations

from towpath.contracts.migration import Role
from towpath.synchrony.consistency import Consistency, Outcome, check, release
from towpath.synchrony.decision import Action, AmendResult, DropResult, ForwardResult
from towpath.synchrony.logged import LoggedResult
from towpath.synchrony.result import Forwarded, ResultEvent
from towpath.synchrony.synchroniser import LogSynchroniser


class ByResults(LogSynchroniser):
    """Runs the consistency check over the log, and translates its outputs into actions.

    It takes a result's value to be the number of its serials. Where that is wrong, because the stream is
    shared or the aggregate is no count, the altered intervals are still right, and the result must be
    computed again over them.

    `factor` is the synchronisation factor S, in serials. `begun` is the end of the source's last result
    before the log, if it is known. Raises `TowpathError` if one of them is negative.
    """

    def __init__(self, factor: int, begun: int | None = None) -> None:
        super().__init__(begun)
        self._state = Consistency(factor)
        self._source: LoggedResult | None = None
        """The source's newest result, while the check holds it back."""

    @property
    def _cut(self) -> int | None:
        agreement = self._state.agreement
        return None if agreement is None else agreement.last.serial

    def _step(self, event: LoggedResult) -> list[Action]:
        result = ResultEvent(event.origin, event.through, event.through - event.after)
        actions = self._applied(check(self._state, result), event)
        if event.origin is Role.SOURCE and self._state.agreement is None:
            self._source = event
        elif all(action.event is not event for action in actions):
            actions.append(DropResult(event))
        return actions

    def _held(self) -> list[Action]:
        return self._applied(release(self._state), None)

    def _applied(self, outcome: Outcome, event: LoggedResult | None) -> list[Action]:
        self._state, forwarded = outcome
        return [_action(output, self._logged(output, event)) for output in forwarded]

    def _logged(self, output: Forwarded, event: LoggedResult | None) -> LoggedResult:
        """Return the log's entry of an output: the check forwards either the new result or the held one."""
        arrived = output.arrived
        if event is not None and (event.origin, event.through) == (arrived.origin, arrived.serial):
            return event
        held, self._source = self._source, None
        assert held is not None
        return held


def _action(output: Forwarded, event: LoggedResult) -> Action:
    if output.result == output.arrived:
        return ForwardResult(event)
    through = output.result.serial
    return AmendResult(event, through - output.result.value, through)
