"""Improve placements: exact choice per job, beam search in the order of jobs, swaps and joint moves.

EQUALITY relaxes the choice of an operator's sites to fractions, solves that as a linear program and rounds.
Here a job runs whole at one site, so the choice for one job is exact: try all sites. Everything is
deterministic: among equals the first one wins, and effort is limited by a count instead of a clock.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from towpath.placement.jobs.scores import Objective, Places, Scorer

BEAM = 24
"""Partial placements that are kept from job to job; EQUALITY keeps one."""

MOST_PAIRS = 20_000
"""Joint moves of two jobs that are tried: all of them for 6 jobs at 35 sites, or 14 jobs at 14 sites."""

AT_ONCE = 4096
"""Placements scored at once: their arrays stay in the cache."""

MOST_CELLS = 100_000_000
"""Effort after which a search ends, in placements scored times (3 · jobs + sites): 14 jobs at 70 sites take
two thirds of it."""

SETTLING, DESCENDING = 0.5, 0.8
"""Shares of `MOST_CELLS` after which these steps end, so that the later ones have something left."""

DIGITS = 10
"""Scores that differ by less are equal."""

Key = tuple[float, ...]


class Search:
    """The search for the placement with the least objective."""

    def __init__(self, scorer: Scorer, objective: Objective) -> None:
        self._scorer = scorer
        self._objective = objective
        self._options = scorer.options
        self._jobs = len(scorer.options)
        self._readers = _readers(scorer)
        self._cells = 0

    def best(self, places: Places) -> tuple[Places, Key]:
        """Return the best of some placements, and its key: smaller keys are better."""
        rows, keys = zip(*(self._best(part) for part in _parts(places)), strict=True)
        first = min(range(len(keys)), key=keys.__getitem__)
        return rows[first], keys[first]

    def key(self, row: Places) -> Key:
        """Return the key of one placement."""
        return self.best(row[None, :])[1]

    def ranked(self, places: Places) -> Places:
        """Return placements, the best one first, each once."""
        _, first = np.unique(places, axis=0, return_index=True)
        places = places[np.sort(first)]
        return places[np.lexsort([*reversed(self._columns(places))])]

    def in_order(self, width: int = BEAM) -> Places:
        """Place the jobs in their order, each given its inputs' places, and return the best placements."""
        beam = np.zeros((1, 0), dtype=np.intp)
        for options in self._options:
            grown = np.repeat(beam, len(options), axis=0)
            grown = np.column_stack([grown, np.tile(options, len(beam))])
            beam = self.ranked(grown)[:width]
        return beam

    def settle(self, places: Places) -> Places:
        """Choose the best site for each job in turn, in many placements at once, until none gets better."""
        before = None
        while before is None or self._has_left(SETTLING):
            for job, options in enumerate(self._options):
                places = self._chosen(places, job, options)
            keys = np.stack(self._columns(places))
            if before is not None and (keys == before).all():
                break
            before = keys
        return places

    def descend(self, row: Places) -> Places:
        """Improve a placement until no move of one job, swap or joint move improves it."""
        row, key = self.best(self.settle(row[None, :]))
        while self._has_left(DESCENDING):
            joint = self._joint_moves(row)
            found, found_key = self.best(joint) if len(joint) else (row, key)
            if found_key >= key:
                break
            row, key = self.best(self.settle(found[None, :]))
        return row

    def relocate(self, row: Places, rounds: int = 10) -> Places:
        """Move each job elsewhere and place all that depends on it again, while that improves the placement.

        latOpt of EQUALITY, with a whole job instead of 30 % of it.
        """
        key = self.key(row)
        for _ in range(rounds):
            improved = False
            for job in range(self._jobs if self._has_left() else 0):
                found, found_key = self.best(self._moved_with_dependants(row, job))
                if found_key < key:
                    row, key, improved = found, found_key, True
            if not improved:
                break
        return row

    def _moved_with_dependants(self, row: Places, job: int) -> Places:
        rows = np.repeat(row[None, :], len(self._options[job]), axis=0)
        rows[:, job] = self._options[job]
        for dependant in self._dependants(job) if self._has_left() else ():
            rows = self._chosen(rows, dependant, self._options[dependant])
        return rows

    def _chosen(self, places: Places, job: int, options: Places) -> Places:
        """Return each placement with the best site for one job."""
        grown = np.repeat(places, len(options), axis=0)
        grown[:, job] = np.tile(options, len(places))
        columns = np.stack([column.reshape(len(places), -1) for column in self._columns(grown)])
        return grown.reshape(len(places), len(options), -1)[np.arange(len(places)), _first_least(columns)]

    def _dependants(self, job: int) -> list[int]:
        reached = {job}
        for one in range(job, self._jobs):
            if one in reached:
                reached.update(self._readers[one])
        return sorted(reached - {job})

    def _joint_moves(self, row: Places) -> Places:
        """Return placements in which two jobs moved: all pairs if they are few, else swaps and neighbours."""
        pairs = [*combinations(range(self._jobs), 2)]
        together = [pair for pair in pairs if pair[1] in self._readers[pair[0]]]
        pairs_of = self._options
        if sum(len(pairs_of[a]) * len(pairs_of[b]) for a, b in pairs) <= MOST_PAIRS:
            moves = [(a, b, u, v) for a, b in pairs for u, v in product(pairs_of[a], pairs_of[b])]
        else:
            swaps = [(a, b, row[b], row[a]) for a, b in pairs if self._may_swap(row, a, b)]
            joined = [
                (a, b, site, site) for a, b in together for site in np.intersect1d(pairs_of[a], pairs_of[b])
            ]
            moves = swaps + joined
        rows = np.repeat(row[None, :], len(moves), axis=0)
        for number, (a, b, u, v) in enumerate(moves):
            rows[number, a], rows[number, b] = u, v
        return rows

    def _may_swap(self, row: Places, a: int, b: int) -> bool:
        return row[a] != row[b] and row[b] in self._options[a] and row[a] in self._options[b]

    def _has_left(self, share: float = 1.0) -> bool:
        return self._cells < share * MOST_CELLS

    def _columns(self, places: Places) -> list[np.ndarray]:
        self._cells += len(places) * (3 * places.shape[1] + len(self._scorer.sites))
        parts = [self._objective(self._scorer.scores(part)) for part in _parts(places)]
        return [np.round(np.concatenate(column), DIGITS) for column in zip(*parts, strict=True)]

    def _best(self, places: Places) -> tuple[Places, Key]:
        columns = np.stack(self._columns(places))[:, None, :]
        first = int(_first_least(columns)[0])
        return places[first], tuple(columns[:, 0, first].tolist())


def _first_least(columns: np.ndarray) -> np.ndarray:
    """Return the first member with the least key of each group; keys are (columns, groups, members)."""
    least = np.ones(columns.shape[1:], dtype=bool)
    for column in columns:
        left = np.where(least, column, np.inf)
        least &= left <= left.min(axis=1, keepdims=True)
    return least.argmax(axis=1)


def _parts(places: Places) -> list[Places]:
    return [places[begin : begin + AT_ONCE] for begin in range(0, len(places), AT_ONCE)]


def _readers(scorer: Scorer) -> list[set[int]]:
    order = scorer.view.order
    return [{number for number, job in enumerate(order) if one.name in job.inputs} for one in order]
