"""The form of every benchmark: a name, the sites it needs, and a measurement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum

from figures import Measured
from measured_mesh import MeasuredMesh

from towpath.contracts.site import Compilation, Durability, EngineSpec, SiteSpec


class Scale(IntEnum):
    """Extent of a measurement."""

    QUICK = 0
    """Everything reduced: it shows that the benchmark runs. The figures are rough."""
    DEFAULT = 1
    FULL = 2
    """The whole grid of migrations."""


Say = Callable[[str], None]

EDGE = SiteSpec(name="jfk")
CLOUD = SiteSpec(name="cloud")
BUSY = SiteSpec(name="busy", engine=EngineSpec(compilation=Compilation.THOROUGH))
"""A site that is set for tens of thousands of events a second."""
POWER_SAFE = SiteSpec(name="safe", durability=Durability.POWER_SAFE)


@dataclass(frozen=True)
class Benchmark:
    """One benchmark."""

    name: str
    title: str
    sites: tuple[SiteSpec, ...]
    """Sites of the mesh that it runs on; none if it makes a mesh of its own."""
    measure: Callable[[MeasuredMesh | None, Scale, Say, Measured], Awaitable[None]]
    """Adds cases to the result one by one, so that a failure keeps the earlier ones."""
    on_request: bool = False
    """True if it runs only when it is named: it takes long, or installs what nothing else needs."""
