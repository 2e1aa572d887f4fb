"""From which node each spout of a query reads where places for copies are short: by HiGHS, exact.

For bounds l of the latency and d of the staleness, an assignment of spouts to nodes exists or not. For each
distinct d, bisection finds the least l for which one exists; F is the least `l · (β + d)`. A bound d whose F
could not be less than the best so far needs no bisection, so most need one program, or none.

The programs are linear. The matrix of an assignment with places is totally unimodular, so the corners of its
polytope are integers, and the simplex method ends at a corner. That holds as long as places are numbers of
copies: sizes of copies would need integer variables.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from highspy import Highs, HighsModelStatus, highs_var

from towpath.placement.data.query_reads import ReadingQuery, Reads, distinct_staleness_ms

_OPTIONS = {"output_flag": False, "threads": 1, "solver": "simplex"}


def limited_reads(query: ReadingQuery) -> Reads | None:
    """Return the best choice within the places of the nodes, or None if there is none.

    Of choices with the same F, D and number of copies, it is the one with the least sum of latencies, as far
    as the solver's tolerance (1e-7 of the sum) tells them apart; F, D and copies are exact.
    """
    assignment = _Assignment(query)
    latencies_ms = sorted({one.latency_ms for spout in query.spouts for one in spout.candidates})
    best, bounds = float("inf"), None
    for staleness_ms in distinct_staleness_ms(query):
        weight_ms = query.beta_ms + staleness_ms
        better = bisect_left(latencies_ms, best, key=lambda latency_ms: latency_ms * weight_ms)
        unlimited = bisect_left(latencies_ms, _unlimited_latency_ms(query, staleness_ms))
        if unlimited >= better or not assignment.exists(latencies_ms[better - 1], staleness_ms):
            continue
        least = bisect_left(
            latencies_ms,
            True,
            unlimited,
            better - 1,
            key=lambda latency_ms: assignment.exists(latency_ms, staleness_ms),
        )
        best, bounds = latencies_ms[least] * weight_ms, (latencies_ms[least], staleness_ms)
    return None if bounds is None else assignment.fewest_copies(*bounds)


def _unlimited_latency_ms(query: ReadingQuery, staleness_ms: float) -> float:
    """Return the least L of candidates that are not staler, if nodes had no limits."""
    return max(
        min((one.latency_ms for one in spout.candidates if one.staleness_ms <= staleness_ms), default=np.inf)
        for spout in query.spouts
    )


class _Assignment:
    """The program that gives each spout one candidate, within the places of the nodes."""

    def __init__(self, query: ReadingQuery) -> None:
        self.candidates = [one for spout in query.spouts for one in spout.candidates]
        self.latencies_ms = np.array([one.latency_ms for one in self.candidates])
        self.staleness_ms = np.array([one.staleness_ms for one in self.candidates])
        self.columns = np.arange(len(self.candidates), dtype=np.int32)
        self.solver = _SilentHighs()
        for option, value in _OPTIONS.items():
            self.solver.setOptionValue(option, value)
        variables = [self.solver.addVariable(0, 1) for _ in self.candidates]
        begin = 0
        for spout in query.spouts:
            end = begin + len(spout.candidates)
            self.solver.addConstr(Highs.qsum(variables[begin:end]) == 1)
            begin = end
        copies: dict[str, list[highs_var]] = {}
        for variable, one in zip(variables, self.candidates, strict=True):
            if one.takes_place and one.node in query.places:
                copies.setdefault(one.node, []).append(variable)
        for node, chosen in copies.items():
            self.solver.addConstr(Highs.qsum(chosen) <= query.places[node])

    def exists(self, latency_ms: float, staleness_ms: float) -> bool:
        """Return True if there is an assignment to candidates within both bounds."""
        within = (self.latencies_ms <= latency_ms) & (self.staleness_ms <= staleness_ms)
        lower, upper = np.zeros(len(within)), within.astype(np.float64)
        self.solver.changeColsBounds(len(within), self.columns, lower, upper)
        self.solver.minimize()
        status = self.solver.getModelStatus()
        if status not in (HighsModelStatus.kOptimal, HighsModelStatus.kInfeasible):
            name = self.solver.modelStatusToString(status)
            raise RuntimeError(f"HiGHS ended with {name!r}, which is neither an optimum nor infeasible")
        return status == HighsModelStatus.kOptimal

    def fewest_copies(self, latency_ms: float, staleness_ms: float) -> Reads | None:
        """Return the assignment within bounds with the fewest copies; then the least sum of latencies."""
        # All latencies together count less than one copy.
        weights = self.latencies_ms / (self.latencies_ms.sum() + 1)
        costs = weights + np.array([one.takes_place for one in self.candidates])
        self.solver.changeColsCost(len(costs), self.columns, costs)
        if not self.exists(latency_ms, staleness_ms):
            return None
        values = self.solver.getSolution().col_value
        return Reads(tuple(one for one, value in zip(self.candidates, values, strict=True) if value > 0.5))


class _SilentHighs(Highs):
    """A solver without output. The first call of its constructor would print a banner."""

    def enableCallbacks(self) -> None:
        """Turn output off first."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()
