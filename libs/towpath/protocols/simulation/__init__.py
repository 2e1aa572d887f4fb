"""A mesh small enough to check a table against every fault: its parties as state machines."""

from towpath.protocols.simulation.clock import SimulatedClock
from towpath.protocols.simulation.mesh import SimulatedMesh
from towpath.protocols.simulation.site import Hosted, SimulatedSite

__all__ = ["Hosted", "SimulatedClock", "SimulatedMesh", "SimulatedSite"]
