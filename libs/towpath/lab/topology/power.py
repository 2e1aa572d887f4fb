"""The power of nodes, straight between idle and active by how busy a node is, and its sum over time."""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.contracts.message import Model
from towpath.contracts.topology import PowerProfile


class NodeEnergy(Model):
    """The energy of a node from the beginning of `before` until steady state was back."""

    energy_j: float
    """Joules, after its power profile."""
    mean_w: float
    """Watts while it ran."""
    utilisation: float
    """Share of its processor that was busy while it ran, 0 to 1."""
    up_s: float
    """Seconds for which it ran."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A node at a moment."""

    at: float
    """Seconds, of any clock that does not go back."""
    cpu_s: float | None
    """Processor time since its start. None: it does not run."""


def power_w(profile: PowerProfile, utilisation: float) -> float:
    """Return the power of a node of which `utilisation`, 0 to 1, is busy."""
    busy = min(1.0, max(0.0, utilisation))
    return profile.idle_w + (profile.active_w - profile.idle_w) * busy


@dataclass
class NodeMeter:
    """Sums up the energy of one node. A missed reading does no harm, because processor time adds up."""

    profile: PowerProfile
    energy_j: float = 0.0
    up_s: float = 0.0
    """Seconds for which it was seen running."""
    busy_s: float = 0.0
    """Seconds of full work, after its share of the machine."""
    power_w: float = 0.0
    """Watts between the last two readings."""
    _last: Reading | None = field(default=None, repr=False)

    @property
    def utilisation(self) -> float:
        """Mean over the time that it ran."""
        return self.busy_s / self.up_s if self.up_s > 0 else 0.0

    def report(self) -> NodeEnergy:
        """Return what was metered so far."""
        return NodeEnergy(
            energy_j=round(self.energy_j, 1),
            mean_w=round(self.energy_j / self.up_s, 2) if self.up_s else 0.0,
            utilisation=round(self.utilisation, 3),
            up_s=round(self.up_s, 1),
        )

    def take(self, reading: Reading, cpus: float) -> float:
        """Take a reading and return the power in watts. `cpus` is the node's share since the last reading.

        A node that was restarted counts its time from zero: between two such readings it was away. It
        cannot be busier than its share: the extra that it gets while it starts is not the node's.
        """
        last, self._last = self._last, reading
        if last is None or last.cpu_s is None or reading.cpu_s is None or reading.cpu_s < last.cpu_s:
            self.power_w = 0.0
            return 0.0
        seconds = reading.at - last.at
        if seconds <= 0:
            return self.power_w
        utilisation = min(1.0, (reading.cpu_s - last.cpu_s) / (seconds * cpus))
        self.power_w = power_w(self.profile, utilisation)
        self.energy_j += self.power_w * seconds
        self.up_s += seconds
        self.busy_s += utilisation * seconds
        return self.power_w
