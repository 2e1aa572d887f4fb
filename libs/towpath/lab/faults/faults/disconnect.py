"""Disconnect a container from its networks, as when its cable is pulled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.lab.containers.networks import Attachment, attach, attachments, detach
from towpath.lab.faults.container_fault import Before, ContainerFault
from towpath.lab.faults.registry import fault

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container


class DisconnectParameters(Model):
    """From what."""

    network: str | None = Field(default=None, min_length=1, max_length=200)
    """The network's name; null: all that the container is on."""


@fault("disconnect", DisconnectParameters)
class Disconnect(ContainerFault):
    """Takes a container off a network, or off all of them, and puts it back with the names and, where the
    network allows it, the address that it had."""

    def before(self, container: Container, known: Before | None) -> Before:
        """Its places in the networks that this is about."""
        places = attachments(container)
        chosen = self._chosen(places)
        if known is None and not chosen:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "the container is not on this network" if self.parameters.network else "it is on no network",
                field="network",
                value=self.parameters.network,
                allowed=sorted(places) or "containers that have networks of their own",
            )
        kept = {name: place for name, place in (known or {}).items() if self._is_meant(name)}
        return kept | {name: places[name].model_dump(mode="json") for name in chosen}

    def change(self, docker: DockerClient, container: Container) -> None:
        """Take it off, also when someone has put it back meanwhile."""
        for name in self._chosen(attachments(container)):
            detach(docker, container, name)

    def undo(self, docker: DockerClient, container: Container, before: Before) -> None:
        """Put it back where it is not."""
        present = attachments(container)
        for name, place in before.items():
            if name not in present:
                attach(docker, container, Attachment.model_validate(place))

    def _is_meant(self, network: str) -> bool:
        return self.parameters.network in (None, network)

    def _chosen(self, places: dict[str, Attachment]) -> list[str]:
        return [name for name in places if self._is_meant(name)]
