"""A value, and the series that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Name = tuple[str, str]
"""Of a series at a site: entity and metric."""


@dataclass(frozen=True)
class About:
    """Facts about a series beside its values."""

    unit: str = ""
    group: str = ""
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


NOTHING = About()


@dataclass(frozen=True)
class StoredValue:
    """One value of one series."""

    entity: str
    metric: str
    at: float
    """Unix seconds."""
    value: float
    about: About = NOTHING
    is_transient: bool = False
    """Kept in memory only."""
