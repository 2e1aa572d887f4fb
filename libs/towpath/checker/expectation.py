"""The expected results, as columns: made by a rule, read from a file, or given one by one."""

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
"""Expected result → its values."""

Reading = Callable[[Any], Any]
"""Turns a value of a result into one that can be compared, such as a time into microseconds."""

OrderKey = Callable[[Identity], tuple[Hashable, int | datetime] | None]
"""Returns for an identity a key, within which order counts, and its place there; None without order."""

UNORDERED = -1


@dataclass
class Expectation:
    """Expected results, one in each row. A result with the identity of `n` rows may come `n` times."""

    rows: int
    identity: Mapping[str, CodedColumn]
    """Field of a result → its values. Together these fields identify the result."""
    values: Mapping[str, CodedColumn] = field(default_factory=dict)
    """Field of a result → its right values."""
    if_present: frozenset[str] = frozenset()
    """Fields among `values` that need not be there; if results have them, they must be right."""
    complete: bool = False
    """Results may have no fields but these."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Field of a result → the reading of its values before they are compared."""
    order: np.ndarray | None = None
    """Results with equal numbers have an order among them. `UNORDERED` ones have none."""
    position: np.ndarray | None = None
    """Their places in that order."""
    optional: np.ndarray | None = None
    """True for results that need not come."""
    surplus: np.ndarray | None = None
    """True for results that cover the same events as another one: they are duplicated if they come."""

    def shown(self, row: int) -> str:
        """Return an expected result on one line, for people."""
        return described({name: column[row] for name, column in self.identity.items()})


def expectation_of(truth: Truth, order_key: OrderKey, surplus: Set[Identity] = frozenset()) -> Expectation:
    """Return the truth as columns. `surplus` are its results that cover the same events as another one."""
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
    """Order windows of a job and key by their beginning, and events of a job and input by serial number."""
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
