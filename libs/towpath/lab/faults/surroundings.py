"""What rules know of the process they are at work in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.lab.faults.reports import Reports


@dataclass
class Surroundings:
    """What rules know of the process they are at work in."""

    scope: str
    process: str
    worker: str | None
    """The Spark executor that a Python worker belongs to."""
    reports: Reports
    shared: Mapping[str, float] = field(default_factory=dict)
    """What conditions may ask of the whole mesh, as last told."""

    def shared_value(self, key: str) -> float | None:
        """A value of the mesh; null where nobody knows it."""
        return self.shared.get(key)

    def fields(self) -> dict[str, Any]:
        """What conditions may name everywhere."""
        return {"site": self.scope, "process": self.process, "worker": self.worker}
