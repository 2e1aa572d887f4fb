"""The emulated links: answers its commands, says what changed."""

from __future__ import annotations

from towpath.contracts.message import ROOT
from towpath.mesh.permissions import Rights
from towpath.mesh.service_table import SERVERS, Service, register
from towpath.mesh.state import MeshState


def address(state: MeshState) -> tuple[str, int]:
    """Return where the link of one site leads to Redis: all listen at once."""
    return state.links_host, next(iter(state.sites.values())).link_redis_port


def settings(state: MeshState, _: str) -> list[str]:
    """Return where all links begin and end."""
    ports = {site: (access.link_port, access.link_redis_port) for site, access in state.sites.items()}
    return [repr(ports), repr(state.hub_leaf_addresses), str(state.redis_port), state.spec.listen]


LINKS = register(
    Service(
        name="links",
        summary="delays, throttles and cuts links, where they are emulated",
        module="towpath.lab.links",
        rights=lambda _: Rights(
            publish=[f"{ROOT}.event.link.>"], subscribe=[f"{ROOT}.command.links.>"], answers=True
        ),
        runs=lambda spec: spec.emulate_links,
        after=SERVERS,
        address=address,
        settings=settings,
        commanded_by_clients=True,
        keeps_files=True,
    )
)
