"""Beyond the thesis: hand over the output at a serial number, not between closed windows.

Algorithms 6.3 and 6.4 add and subtract counts, and wait until two windows happen to close near each
other. That is wrong where the serials are not all the job's own (a stream shared with other jobs), and
means nothing for an average. But the input is a stored stream. The one window that straddles the cut can be
computed again from it, over exactly the missing serials. So the decision needs no luck: it falls at the
first result of the target that reaches as far as the source's last one, and at most one result is amended.
No window has to close for it either: the output before the log tells where the source's last result ended.
"""

from __future__ import annotations

from towpath.contracts.migration import Role
from towpath.synchrony.decision import Action, AmendResult, DropResult, ForwardResult
from towpath.synchrony.logged import LoggedResult
from towpath.synchrony.result import at_least
from towpath.synchrony.synchroniser import LogSynchroniser


class Cut(LogSynchroniser):
    """Cuts at the last serial of the source's output, as soon as the target has come that far.

    Target results up to the cut are dropped. The first that reaches beyond it is amended to begin at the
    cut, if it began before the cut or (a target that started late) after it. All later ones pass.

    `factor`: decide only when the target is at most this many serials ahead. It limits the recomputation.
    `begun`: the end of the source's last result before the log, if it is known.
    Raises `TowpathError` if one of them is negative.
    """

    def __init__(self, factor: int | None = None, begun: int | None = None) -> None:
        super().__init__(begun)
        if factor is not None:
            at_least("factor", factor, 0)
        self._factor = factor
        self._reached: int | None = None
        """The output is complete up to this serial. Set at the decision, to the cut at first."""
        self._cut_serial: int | None = None
        self._beyond: list[LoggedResult] = []
        """Target results that reach beyond the source. The decision tells which of them count."""

    @property
    def _cut(self) -> int | None:
        return self._cut_serial

    def _step(self, event: LoggedResult) -> list[Action]:
        if self._cut_serial is not None:
            return [DropResult(event)] if event.origin is Role.SOURCE else [self._handed_over(event)]
        actions: list[Action] = []
        if event.origin is Role.SOURCE:
            actions.append(ForwardResult(event))
        else:
            self._beyond.append(event)
        source = self._frontiers.source
        if source is None:
            return actions
        # The cut is at or after the source's frontier, so results that end before it are not needed.
        actions += [DropResult(result) for result in self._beyond if result.through <= source]
        self._beyond = [result for result in self._beyond if result.through > source]
        if self._near():
            self._cut_serial = self._reached = source
            actions += [self._handed_over(result) for result in self._beyond]
            self._beyond = []
        return actions

    def _held(self) -> list[Action]:
        return [DropResult(result) for result in self._beyond]

    def _near(self) -> bool:
        offset = self._frontiers.offset
        return offset is not None and offset <= 0 and (self._factor is None or -offset <= self._factor)

    def _handed_over(self, result: LoggedResult) -> Action:
        """Decide on a target's result after the decision: the output continues exactly where it ended."""
        assert self._reached is not None
        if result.through <= self._reached:
            return DropResult(result)
        after, self._reached = self._reached, result.through
        return ForwardResult(result) if result.after == after else AmendResult(result, after, result.through)
