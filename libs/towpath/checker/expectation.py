"""The results there should be, as columns: made by a rule, read from a file, or given one by one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from towpath.checker.columns import CodedColumn, Table
from towpath.checker.identity import (
    RESULT,
    Identity,
    RangeIdentity,
    SerialIdentity,
    WindowIdentity,
    described,
)

Truth = Mapping[Identity, Mapping[str, Any]]
"""Which results there should be, and the values of each."""

Reading = Callable[[Any], Any]
"""From a value as results have it to one that can be compared, such as a time to microseconds."""

OrderKey = Callable[[Identity], tuple[Hashable, int | datetime] | None]
"""From an identity to a key, within which order counts, and the place there; None where it does not."""

UNORDERED = -1


@dataclass
class Expectation:
    """Results there should be, one in each row. What has the identity of `n` rows may come `n` times."""

    rows: int
    identity: Mapping[str, CodedColumn]
    """Field of a result → its values: together they say which result it is."""
    values: Mapping[str, CodedColumn] = field(default_factory=dict)
    """Field of a result → what it should be."""
    if_present: frozenset[str] = frozenset()
    """Fields among `values` that need not be there; if results have them, they must be right."""
    complete: bool = False
    """Results may have no fields but these."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """How fields of results are read before they are compared."""
    order: np.ndarray | None = None
    """Results of equal numbers have an order among them; those that are `UNORDERED` have none."""
    position: np.ndarray | None = None
    """The place in that order."""
    optional: np.ndarray | None = None
    """True for results that need not come."""
    surplus: np.ndarray | None = None
    """True for results that cover what another one does: duplicated, if they come."""

    def shown(self, row: int) -> str:
        """An expected result on one line, for people."""
        return described({name: column[row] for name, column in self.identity.items()})


def expectation_of(truth: Truth, order_key: OrderKey, surplus: Set[Identity] = frozenset()) -> Expectation:
    """The truth as columns; `surplus` are those of its results that cover what another one does."""
    values = Table()
    for each in truth.values():
        values.append(each, {})
    places = [order_key(identity) or (None, 0) for identity in truth]
    return Expectation(
        len(truth),
        {RESULT: CodedColumn.of(truth)},
        values.columns,
        complete=True,
        order=CodedColumn.of(key for key, _ in places).array() - 1,  # Code 0 is that of None.
        position=np.array([_number(position) for _, position in places], np.int64),
        surplus=np.array([identity in surplus for identity in truth], bool),
    )


def in_window_or_serial_order(identity: Identity) -> tuple[Hashable, int | datetime] | None:
    """Windows of one job and key by their beginning; events of one job and input by their serial number."""
    if isinstance(identity, WindowIdentity):
        return (identity.job, identity.key), identity.start
    if isinstance(identity, RangeIdentity):
        return (identity.job, identity.key), identity.after
    if isinstance(identity, SerialIdentity):
        return (identity.job, identity.input), identity.serial
    return None


def _number(position: int | datetime) -> int:
    if isinstance(position, int):
        return position
    return (position - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
