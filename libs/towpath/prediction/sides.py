"""Judge a signed distance by a limit that holds on one side or on both."""

from __future__ import annotations

from towpath.prediction.registry import ALARM, LOWER, NORMAL, UPPER


def beyond(distance: float, limit: float, wanted: str) -> tuple[str, str | None, float]:
    """Return state, side and statistic of a distance from the mean. `wanted` is a `Side` of the contract.

    The statistic is the distance on the wanted side, at least zero. The side is None unless it is beyond the
    limit.
    """
    statistic = max(distance, 0.0) if wanted == UPPER else max(-distance, 0.0)
    if wanted not in (UPPER, LOWER):
        statistic = abs(distance)
    if statistic > limit:
        return ALARM, UPPER if distance > 0 else LOWER, statistic
    return NORMAL, None, statistic
