"""Stop a container: what runs in it ends in good order, and no one starts it again meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from towpath.contracts.message import Model
from towpath.lab.containers.control import STOP_S, UP
from towpath.lab.faults.container_fault import Before, ContainerFault
from towpath.lab.faults.registry import fault

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container


class StopParameters(Model):
    """The way it ends."""

    grace_s: int = Field(default=STOP_S, ge=0, le=10)
    """Between asking what runs in it to end, and killing it, seconds. Other rules wait so long."""


@fault("stop", StopParameters)
class Stop(ContainerFault):
    """Stops a container, whatever its restart policy says, and starts it again afterwards if it ran."""

    def before(self, container: Container, known: Before | None) -> Before:
        """Return under `runs` whether it is to run."""
        return {"runs": container.status in UP or bool(known and known["runs"])}

    def change(self, docker: DockerClient, container: Container) -> None:
        """Stop it, also when someone has started it meanwhile."""
        if container.status in UP:
            container.stop(timeout=self.parameters.grace_s)

    def undo(self, docker: DockerClient, container: Container, before: Before) -> None:
        """Start it."""
        if before["runs"]:
            container.start()
