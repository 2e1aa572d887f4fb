"""What the processes beside the hub use: the servers and the services, each with what hangs below it."""

from __future__ import annotations

import asyncio
from time import time

from towpath.bus import Bus
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Sample
from towpath.mesh.home import Home
from towpath.processes import listed
from towpath.telemetry.process_figures import ProcessFigures
from towpath.telemetry.samples import samples_of

OWN = "collector"
"""Name of this process: of its own connection it knows the traffic."""


class Processes:
    """Looks at the hub's processes again and again."""

    def __init__(self, home: Home, bus: Bus) -> None:
        self._home = home
        self._bus = bus
        self._figures = ProcessFigures()

    async def measure(self) -> list[Sample]:
        """How all of them are now."""
        used = await asyncio.to_thread(self._look)
        if OWN in used:
            stats = self._bus.connection.stats
            used[OWN]["process.network.received"] = float(stats["in_bytes"])
            used[OWN]["process.network.sent"] = float(stats["out_bytes"])
        at = time()
        return [s for name, values in used.items() for s in samples_of(f"process:{name}", at, values)]

    def _look(self) -> dict[str, dict[str, float]]:
        """Values by process and metric. Blocks for some milliseconds."""
        living = [record for record in listed(self._home.run) if record.process is not None]
        # Also the sites': else what they are would count for those that started them.
        used = self._figures.look({record.name: record.pid for record in living})
        return {
            record.name: {**used[record.name], "process.restarts": float(record.restarts)}
            for record in living
            if self._home.scope_of(record.name) == HUB_SCOPE
        }
