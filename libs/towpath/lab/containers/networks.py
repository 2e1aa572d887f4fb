"""How a container hangs on its networks: taken off one, and put back as it was."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from towpath.containers.daemon import OF_NOBODY
from towpath.contracts.message import Model

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container

log = logging.getLogger(__name__)


class Attachment(Model):
    """A container's place in one network, as others there know it."""

    network_id: str
    address: str | None = None
    """IPv4."""
    given: bool = False
    """Whether the address was asked for, and did not just come from the network's daemon."""
    aliases: list[str] = []
    links: list[str] = []
    driver_options: dict[str, str] = {}


def attachments(container: Container) -> dict[str, Attachment]:
    """The networks that a container hangs on, by name. None of another container's, or of the machine's."""
    places = container.attrs["NetworkSettings"]["Networks"] or {}
    return {
        name: _attachment(place, str(container.id)) for name, place in places.items() if name not in OF_NOBODY
    }


def detach(docker: DockerClient, container: Container, network: str) -> None:
    """Take it off a network. Connections over it hang, as when a cable is pulled."""
    docker.networks.get(network).disconnect(container)


def attach(docker: DockerClient, container: Container, attachment: Attachment) -> None:
    """Put it back where it was. Where the network is gone, there is nothing to be put back to.

    It gets the address it had. One that was not asked for may have gone to another container, or be the
    network's to choose: then it gets another one.
    """
    from docker.errors import APIError, NotFound

    try:
        network = docker.networks.get(attachment.network_id)
    except NotFound:
        log.warning("the network that %s was on is not there any more", container.name)
        return
    for address in dict.fromkeys([attachment.address, attachment.address if attachment.given else None]):
        try:
            network.connect(
                container,
                ipv4_address=address,
                aliases=attachment.aliases or None,
                links=attachment.links or None,
                driver_opt=attachment.driver_options or None,
            )
            return
        except APIError:
            if address is None or attachment.given:
                raise


def _attachment(place: dict, container_id: str) -> Attachment:
    wanted = place.get("IPAMConfig") or {}
    given = wanted.get("IPv4Address")
    return Attachment(
        network_id=place["NetworkID"],
        address=given or place.get("IPAddress") or None,
        given=bool(given),
        # The daemon adds the short id by itself.
        aliases=[alias for alias in place.get("Aliases") or [] if not container_id.startswith(alias)],
        links=place.get("Links") or [],
        driver_options=place.get("DriverOpts") or {},
    )
