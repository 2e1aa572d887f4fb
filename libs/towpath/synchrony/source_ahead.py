"""Algorithm 6.3: the source has counted events that the target has yet to count.

The source's result stands, and the target's next results lose what they would count a second time.

The thesis takes the offset from the target's next result. When the target's windows are smaller than
the offset, one result cannot carry it: the counter-example `S[9,9] T[6,6] T[7,1] T[8,1] T[12,4]` would
deliver -2, 1 and 4 after the source's 9, twelve in all but none of them right. So a result that falls to
zero or less is swallowed whole, and what is left of the offset is carried to the one after it.
"""

from __future__ import annotations

from dataclasses import replace

from towpath.synchrony.result import ResultEvent


def subtract(remainder: int, result: ResultEvent) -> tuple[int, ResultEvent | None]:
    """Take events that the source counted already out of a target's result.

    `remainder` is how many such events the target's results still hold. Returns how many later ones
    hold, and what is left of this result: None when nothing is.
    """
    if result.value <= remainder:
        return remainder - result.value, None
    return 0, replace(result, value=result.value - remainder)
