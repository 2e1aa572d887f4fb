"""Take a container off a network, and put it back as it was."""

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
    """True if the address was asked for, and was not just the daemon's choice."""
    aliases: list[str] = []
    links: list[str] = []
    driver_options: dict[str, str] = {}


def attachments(container: Container) -> dict[str, Attachment]:
    """Return a container's own networks by name: none of another container's, or of the machine's."""
    places = container.attrs["NetworkSettings"]["Networks"] or {}
    return {
        name: _attachment(place, str(container.id)) for name, place in places.items() if name not in OF_NOBODY
    }


def detach(docker: DockerClient, container: Container, network: str) -> None:
    """Take it off a network. Connections over it hang, as when a cable is pulled."""
    docker.networks.get(network).disconnect(container)


def attach(docker: DockerClient, container: Container, attachment: Attachment) -> None:
    """Put it back where it was, if the network still exists.

    It gets the address it had. Unless that was asked for, another container may have it by now, or the
    network may choose: then it gets another one.
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
