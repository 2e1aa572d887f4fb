"""Algorithm 6.4: the target has counted events that the source has yet to count.

These results of the target were never forwarded, so the source's last result takes their place: it is
given the events up to where the target stands.
"""

from __future__ import annotations

from towpath.synchrony.result import ResultEvent


def extend(source: ResultEvent, ahead: int) -> ResultEvent:
    """The source's last result, with the `ahead` events that the target is ahead."""
    return ResultEvent(source.origin, source.serial + ahead, source.value + ahead)
