"""Give a container less memory while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from towpath.containers.running import MEGABYTE
from towpath.contracts.message import Model
from towpath.lab.containers.limits import limit_memory, memory_limits, restore_memory
from towpath.lab.faults.container_fault import Before, ContainerFault
from towpath.lab.faults.registry import fault

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container


class MemoryLimitParameters(Model):
    """The limit."""

    megabytes: int = Field(ge=8, le=10_000_000)
    """Each of 1,048,576 bytes, as everywhere where containers are limited, with no swap on top."""


@fault("memory_limit", MemoryLimitParameters)
class MemoryLimit(ContainerFault):
    """Lets a running container take no more than so much memory, and afterwards what it might before. Beyond
    it the kernel kills a process of the container, at once if it has taken more already (older kernels refuse
    the limit then). One that may take less anyhow keeps it; of several such rules the strictest counts."""

    def before(self, container: Container, known: Before | None) -> Before:
        """Its limit, unless it is lowered already."""
        return dict(memory_limits(container)) if known is None or self._has_more(container) else known

    def change(self, docker: DockerClient, container: Container) -> None:
        """Lower it, also when someone has raised it meanwhile."""
        if self._has_more(container):
            limit_memory(docker, container, self._limit_bytes)

    def undo(self, docker: DockerClient, container: Container, before: Before) -> None:
        """Put the limit back."""
        restore_memory(docker, container, before)

    @property
    def _limit_bytes(self) -> int:
        return self.parameters.megabytes * MEGABYTE

    def _has_more(self, container: Container) -> bool:
        # The daemon keeps whole pages.
        limit = memory_limits(container)["Memory"]
        return limit == 0 or limit > self._limit_bytes
