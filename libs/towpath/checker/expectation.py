"""What should come out, as columns: made by a rule, or read from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from towpath.checker.columns import Column

Reading = Callable[[Any], Any]
"""From a value as results have it to one that can be compared, such as a time to microseconds."""


@dataclass
class Expectation:
    """Results there should be, one in each row. What has the identity of `n` rows may come `n` times."""

    rows: int
    identity: Mapping[str, Column]
    """Field of a result → its values: together they say which result it is."""
    values: Mapping[str, Column] = field(default_factory=dict)
    """Field of a result → what it should be."""
    if_present: frozenset[str] = frozenset()
    """Fields among `values` that need not be there; if results have them, they must be right."""
    complete: bool = False
    """Whether a result may have no fields but these."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """How fields of results are read before they are compared."""
    order: np.ndarray | None = None
    """Within what the order counts, as a number; None: it does not."""
    position: np.ndarray | None = None
    """The place in that order."""
    optional: np.ndarray | None = None
    """True for results that need not come."""
    surplus: np.ndarray | None = None
    """True for results that cover what another one does: duplicated, if they come."""

    def shown(self, row: int) -> str:
        """An expected result on one line, for people."""
        return ", ".join(f"{name}={column[row]!r}" for name, column in self.identity.items())
