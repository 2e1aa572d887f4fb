"""From which node each spout of a query reads: exact, by enumeration, or by a solver where places are short.

Minimises F = L · (β + D) of RAINBOW (D4.2, query-driven placement, first step): L is the longest latency from
a chosen node to the bolts, D the largest staleness of a chosen node. F is a product of two maxima, so no
linear program; but with D bounded by one of its distinct values, only L is left to minimise.

Among choices of least F, one of the least D is taken; then one with the fewest new copies; then one whose
latencies have the least sum; then, without limits, the first nodes by name.
"""

from __future__ import annotations

from towpath.placement.data.query_reads import (
    Candidate,
    ReadingQuery,
    Reads,
    distinct_staleness_ms,
    within_places,
)


def place_reads(query: ReadingQuery) -> Reads | None:
    """Return the best choice, or None if the nodes have too few places for any."""
    reads = enumerated_reads(query)
    if within_places(query, reads.chosen):
        return reads
    # Imported only where limits bind, because loading it and numpy takes a quarter of a second.
    from towpath.placement.data.limited_reads import limited_reads

    return limited_reads(query)


def enumerated_reads(query: ReadingQuery) -> Reads:
    """Return the best choice if nodes had no limits.

    `L(d) = max_i min {lat(u, u_b): D(i, u) ≤ d}`, and F is the least `L(d) · (β + d)` over all distinct d.
    """
    latency_ms, staleness_ms = _best_bounds(query)
    return Reads(
        tuple(
            min(
                (one for one in spout.candidates if _within(one, latency_ms, staleness_ms)),
                key=lambda one: (one.takes_place, one.latency_ms, one.node),
            )
            for spout in query.spouts
        )
    )


def _best_bounds(query: ReadingQuery) -> tuple[float, float]:
    """Return L and D of the least F: candidates join in the order of staleness, and lower the latencies."""
    joining: dict[float, list[tuple[int, float]]] = {bound: [] for bound in distinct_staleness_ms(query)}
    for place, spout in enumerate(query.spouts):
        for one in spout.candidates:
            joining[one.staleness_ms].append((place, one.latency_ms))
    lowest = [float("inf")] * len(query.spouts)
    best, bounds = float("inf"), (float("inf"), float("inf"))
    for staleness_ms, joined in joining.items():
        for place, latency_ms in joined:
            lowest[place] = min(lowest[place], latency_ms)
        longest = max(lowest)
        # As long as a spout has no candidate, this is infinity or NaN, which is not less.
        if longest * (query.beta_ms + staleness_ms) < best:
            best, bounds = longest * (query.beta_ms + staleness_ms), (longest, staleness_ms)
    return bounds


def _within(candidate: Candidate, latency_ms: float, staleness_ms: float) -> bool:
    return candidate.latency_ms <= latency_ms and candidate.staleness_ms <= staleness_ms
