"""Give a container less processor time while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from towpath.contracts.message import Model
from towpath.lab.containers.limits import (
    limit_processors,
    processor_limits,
    processors,
    restore_processors,
)
from towpath.lab.faults.container_fault import Before, ContainerFault
from towpath.lab.faults.registry import fault

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container

FINEST = 0.01
"""Processors; a daemon gives out no less."""


class CpuLimitParameters(Model):
    """The limit."""

    cpus: float = Field(ge=FINEST, le=1_024, allow_inf_nan=False)
    """Seconds of processor time per second, of all threads together."""


@fault("cpu_limit", CpuLimitParameters)
class CpuLimit(ContainerFault):
    """Lets a running container take no more than so many processors, and afterwards what it took before. One
    that has less anyhow keeps it; of several such rules the strictest counts."""

    def before(self, container: Container, known: Before | None) -> Before:
        """Its limit, unless it is lowered already."""
        return dict(processor_limits(container)) if known is None or self._has_more(container) else known

    def change(self, docker: DockerClient, container: Container) -> None:
        """Lower it, also when someone has raised it meanwhile."""
        if self._has_more(container):
            limit_processors(docker, container, self.parameters.cpus)

    def undo(self, docker: DockerClient, container: Container, before: Before) -> None:
        """Put the limit back."""
        restore_processors(docker, container, before)

    def _has_more(self, container: Container) -> bool:
        now = processors(processor_limits(container))
        return now is None or now > self.parameters.cpus + FINEST / 2
