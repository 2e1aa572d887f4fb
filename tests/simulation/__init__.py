"""A mesh small enough to check a table against every fault: its parties as state machines."""

from simulation.clock import SimulatedClock
from simulation.mesh import SimulatedMesh
from simulation.site import Hosted, SimulatedSite

__all__ = ["Hosted", "SimulatedClock", "SimulatedMesh", "SimulatedSite"]
