"""The past of one key: its panes, and the values that some functions need one by one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from towpath.queries.evaluation.totals import Totals

Entry = tuple[int, int, int, Any]
"""Time in microseconds, input, serial number, value. Entries are compared in the order of events."""

Origin = tuple[int, int]
"""The largest serial number of events, and the newest time of storing, in microseconds."""


@dataclass(frozen=True)
class Pane:
    """The numbers that a job kept of the events of a pane, for one value of its keys."""

    end: int
    """Microseconds since 1970; events of the pane are earlier."""
    keys: Mapping[str, str]
    origin: Origin
    totals: Mapping[str, Totals]
    series: Mapping[str, Sequence[Entry]]


@dataclass
class History:
    """The past of one key, as far as any query needs it."""

    ends: list[int] = field(default_factory=list)
    """Ends of panes, rising."""
    origins: list[Origin] = field(default_factory=list)
    """Of each pane."""
    totals: dict[str, dict[int, Totals]] = field(default_factory=dict)
    """Column → end of a pane → what was kept of it."""
    series: dict[str, list[Entry]] = field(default_factory=dict)
    """Column → values in the order of events."""

    def take(self, pane: Pane, columns: frozenset[str]) -> None:
        """Add a pane, or a further part of one. Only these columns are of use."""
        self.mark(pane.end, pane.origin)
        for column, totals in pane.totals.items():
            if column in columns and totals.count:
                self.totals.setdefault(column, {}).setdefault(pane.end, Totals()).add(totals)
        for column, entries in pane.series.items():
            if column in columns and entries:
                known = self.series.setdefault(column, [])
                known += entries
                known.sort(key=_place)

    def mark(self, end: int, origin: Origin) -> None:
        """Note that there are events before `end`."""
        at = bisect_left(self.ends, end)
        if at < len(self.ends) and self.ends[at] == end:
            known = self.origins[at]
            self.origins[at] = max(known[0], origin[0]), max(known[1], origin[1])
            return
        self.ends.insert(at, end)
        self.origins.insert(at, origin)

    def add(self, column: str, entry: Entry) -> None:
        """Add a value that is newer than all of its column."""
        self.series.setdefault(column, []).append(entry)

    def panes(self, after: int, until: int) -> Sequence[int]:
        """Return the ends of panes with after < end ≤ until."""
        return self.ends[bisect_right(self.ends, after) : bisect_right(self.ends, until)]

    def end_after(self, moment: int) -> int | None:
        """Return the first end of a pane behind a moment."""
        at = bisect_right(self.ends, moment)
        return self.ends[at] if at < len(self.ends) else None

    def origin(self, after: int, until: int) -> Origin:
        """Return the newest origin of the panes with after < end ≤ until."""
        found = self.origins[bisect_right(self.ends, after) : bisect_right(self.ends, until)]
        return (max(one[0] for one in found), max(one[1] for one in found)) if found else (0, 0)

    def forget(self, moment: int, kept_from: Mapping[str, tuple[int, ...]]) -> None:
        """Drop what lies before a moment; of the columns in `kept_from` keep what lies behind that, too."""
        at = bisect_right(self.ends, moment)
        for end in self.ends[:at]:
            for by_end in self.totals.values():
                by_end.pop(end, None)
        del self.ends[:at], self.origins[:at]
        for column, entries in self.series.items():
            bound = min((moment,), kept_from.get(column, (moment,)))
            del entries[: bisect_left(entries, bound)]

    def saved(self) -> list[Any]:
        """Return all of it as plain data."""
        totals = {name: {end: one.saved() for end, one in ends.items()} for name, ends in self.totals.items()}
        return [self.ends, self.origins, totals, self.series]

    @classmethod
    def restored(cls, saved: Sequence[Any]) -> History:
        """Return the history that `saved` returned."""
        ends, origins, totals, series = saved
        return cls(
            [*ends],
            [tuple(origin) for origin in origins],
            {name: {end: Totals.restored(one) for end, one in by.items()} for name, by in totals.items()},
            {name: [tuple(entry) for entry in entries] for name, entries in series.items()},
        )


def _place(entry: Entry) -> tuple[int, int, int]:
    return entry[:3]
