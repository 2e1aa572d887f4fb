"""What nodes draw: power straight between idle and active, by how busy a node is; energy summed over time."""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.contracts.topology import PowerProfile


@dataclass(frozen=True, slots=True)
class Reading:
    """What was seen of a node at a moment."""

    at: float
    """Seconds, of any clock that does not go back."""
    cpu_s: float | None
    """Processor time that it has taken since it was started; null: it does not run."""


def power_w(profile: PowerProfile, utilisation: float) -> float:
    """What a node draws when so much of it is busy, 0 to 1; beyond 1 it is 1."""
    busy = min(1.0, max(0.0, utilisation))
    return profile.idle_w + (profile.active_w - profile.idle_w) * busy


@dataclass
class NodeMeter:
    """The energy that one node has taken. Feed it readings; one that is missed costs nothing of exactness,
    because processor time adds up by itself.
    """

    profile: PowerProfile
    energy_j: float = 0.0
    up_s: float = 0.0
    """For how long it was seen running."""
    busy_s: float = 0.0
    """Processor time as a part of its share, seconds of full work."""
    power_w: float = 0.0
    """Between the last two readings."""
    _last: Reading | None = field(default=None, repr=False)

    @property
    def utilisation(self) -> float:
        """Mean over the time that it ran."""
        return self.busy_s / self.up_s if self.up_s > 0 else 0.0

    def take(self, reading: Reading, cpus: float) -> float:
        """Take a reading in; `cpus` is the node's share since the last one. What it draws, watts.

        A node that was started anew counts its time from zero: between two such readings it was away. It
        cannot be busier than its share: what a node takes beyond it, while it starts, is not the node's.
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
