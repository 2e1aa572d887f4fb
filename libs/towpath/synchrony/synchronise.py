"""Algorithm 6.2: are two results near enough to let the target take over, and how?

`S`, the synchronisation factor, bounds how many events one operator may be ahead of the other, and so
how far one result may be altered; with S = 0 none is.

The thesis's listing waits while `offset > S`. The offset of a target that is ahead is negative, and so
would never wait: with S = 0, `S[1,1] T[6,6]` would make the source's result `S[6,6]`. The thesis's prose
and its third example wait for such a target too. The absolute value is compared here.
"""

from __future__ import annotations

from dataclasses import dataclass

from towpath.synchrony.result import ResultEvent
from towpath.synchrony.target_ahead import extend


@dataclass(frozen=True, slots=True)
class Agreement:
    """From where on the target's results are the output."""

    offset: int
    """Serial of the source's newest result minus serial of the target's."""
    last: ResultEvent
    """The source's last result, as it has to be forwarded."""
    remainder: int
    """How many events of `last` the target's next results count again (Algorithm 6.3)."""


def synchronise(source: ResultEvent, target: ResultEvent, factor: int) -> Agreement | None:
    """How the target takes over after these results, the newest of each operator; None: not yet."""
    offset = source.serial - target.serial
    if abs(offset) > factor:
        return None
    if offset >= 0:
        return Agreement(offset, last=source, remainder=offset)
    return Agreement(offset, last=extend(source, -offset), remainder=0)
