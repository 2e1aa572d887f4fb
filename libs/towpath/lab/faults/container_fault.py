"""Base of faults that last on a container: they remember by its id how it was."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from towpath.containers.daemon import daemon, find
from towpath.containers.errors import NoSuchContainer
from towpath.contracts.faults import TargetKind
from towpath.lab.faults.registry import HeldFault, Target

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container

Before = dict[str, Any]
"""State of a container before a fault, as far as the fault changes it; plain JSON."""


class ContainerFault(HeldFault):
    """Changes something about a container, and changes it back.

    A container that is made again under the same name is another one: nothing that was remembered of the
    one before is of use.
    """

    applies_to = frozenset({TargetKind.CONTAINER.value})

    @abstractmethod
    def before(self, container: Container, known: Before | None) -> Before:
        """Return the container's state without this fault. `known` is what was remembered of it, if anything
        was: take from there what this fault has changed, also for another rule."""

    @abstractmethod
    def change(self, docker: DockerClient, container: Container) -> None:
        """Change it if it is not so yet: called about four times a second."""

    @abstractmethod
    def undo(self, docker: DockerClient, container: Container, before: Before) -> None:
        """Make it what it was. Harmless when it is so."""

    def remember(self, target: Target, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the container's state under its id. Raises `DaemonError`."""
        with daemon() as docker:
            container = find(docker, target.name)
            return {str(container.id): self.before(container, known.get(str(container.id)))}

    def hold(self, target: Target) -> None:
        """Change the container. Raises `DaemonError`."""
        with daemon() as docker:
            container = find(docker, target.name)
            # One that was made this very moment is remembered first, at the next look.
            if container.id in target.remembered:
                self.change(docker, container)

    def release(self, target: Target) -> None:
        """Undo it where it is known how it was; what is not there any more needs nothing. Raises
        `DaemonError`."""
        with daemon() as docker:
            for container_id, before in target.remembered.items():
                try:
                    container = find(docker, container_id)
                except NoSuchContainer:
                    continue
                self.undo(docker, container, before)
