"""Split queries into programs whose keys can be computed apart from each other, on any number of cores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from towpath.queries.program import Program, QueryProgram


@dataclass(frozen=True)
class SharedKeys:
    """Queries that all group by these columns, and some by more."""

    keys: tuple[str, ...]
    program: Program

    @property
    def name(self) -> str:
        """The same whatever other queries there are: state is kept under it."""
        return " ".join(self.keys)


def shared_keys(program: Program) -> list[SharedKeys]:
    """Return programs for all queries. Queries that read each other's answers stay together."""
    together: dict[tuple[str, ...], list[QueryProgram]] = {}
    for connected in _connected(program.queries):
        columns = [{key.column for key in query.by} for query in connected]
        common = tuple(sorted(set.intersection(*columns)))
        together.setdefault(common, []).extend(connected)
    order = {query.name: at for at, query in enumerate(program.queries)}
    return [
        SharedKeys(
            keys, Program(program.pane_micros, tuple(sorted(queries, key=lambda one: order[one.name])))
        )
        for keys, queries in sorted(together.items())
    ]


def _connected(queries: Sequence[QueryProgram]) -> Iterator[list[QueryProgram]]:
    groups: list[list[QueryProgram]] = []
    for query in queries:
        read = {argument.insight for argument in query.columns}
        joined = [group for group in groups if any(one.name in read for one in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(one for group in joined for one in group), query])
    return iter(groups)
