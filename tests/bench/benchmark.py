"""What every benchmark is: a name, the sites it needs, and a measurement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum

from figures import Measured
from measured_mesh import MeasuredMesh

from towpath.contracts.site import Durability, SiteSpec


class Scale(IntEnum):
    """How much is measured."""

    QUICK = 0
    """Everything reduced: shows that it runs, the figures are rough."""
    DEFAULT = 1
    FULL = 2
    """The whole grid of migrations."""


Say = Callable[[str], None]

EDGE = SiteSpec(name="jfk")
CLOUD = SiteSpec(name="cloud")
POWER_SAFE = SiteSpec(name="safe", durability=Durability.POWER_SAFE)


@dataclass(frozen=True)
class Benchmark:
    """One benchmark."""

    name: str
    title: str
    sites: tuple[SiteSpec, ...]
    """Sites of the mesh it runs on; none: it makes a mesh of its own."""
    measure: Callable[[MeasuredMesh | None, Scale, Say, Measured], Awaitable[None]]
    """Adds cases to what was measured, one by one, so that a failure does not take them along."""
