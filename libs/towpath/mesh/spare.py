"""A spare coordinator on another machine, for a mesh whose hub is a NATS deployment on several machines.

It has a Redis of its own. When it takes over, it brings that Redis up to the registry's log at the hub. State
that moves between sites still passes through the Redis beside the other services: while their machine is
away, moves are undone.
"""

from __future__ import annotations

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.joining import SpareBundle
from towpath.contracts.site import Addresses, SiteSpec
from towpath.contracts.tls import TlsSpec
from towpath.mesh.provisioning import new_mesh
from towpath.mesh.state import MeshState
from towpath.mesh.views import blanked


def spare_bundle(state: MeshState, number: int, authority: str | None) -> SpareBundle:
    """Return the bundle for a machine that is to run the coordinator of this number.

    `authority` is the certificate of the hub's authority, PEM. Raises `TowpathError` (not allowed) if Towpath
    runs the hub itself: the spare would be lost with it.
    """
    if not state.spec.hub.is_elsewhere:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the hub is on this machine: without it, no other machine can coordinate",
            field="hub.urls",
            value=state.spec.hub.urls,
            allowed="a mesh whose hub is a NATS deployment on several machines",
        )
    changed = {
        # What a coordinator knows of sites before it hears of them.
        "sites": [SiteSpec(name=name, capacity=a.spec.capacity) for name, a in sorted(state.sites.items())],
        "coordinators": 2,
        "addresses": Addresses(),
        "listen": "127.0.0.1",
        "artefact_root": None,
        "emulate_links": False,
        "redis_port": 0,
        "api_port": 0,
        "tls": TlsSpec(),
    }
    return SpareBundle(
        spare=number,
        mesh=state.spec.model_copy(update=changed),
        coordinator=state.login("coordinator"),
        operator=state.operator,
        authority=authority,
    )


def spare_mesh(bundle: SpareBundle, ca_file: str | None, known: MeshState | None = None) -> MeshState:
    """Return what the spare's machine saves. `ca_file` has the bundle's authority.

    What an earlier bundle has made there is `known`: its Redis stays as it is.
    """
    hub = bundle.mesh.hub.model_copy(update={"ca_file": ca_file})
    redis_port = known.spec.redis_port if known else 0
    made = new_mesh(bundle.mesh.model_copy(update={"hub": hub, "redis_port": redis_port}))
    sites = {
        name: access.model_copy(update={**blanked(access), "is_elsewhere": True})
        for name, access in made.sites.items()
    }
    told = {
        "supervisor": None,
        "spare": bundle.spare,
        "redis_coordinator": (known or made).redis_coordinator,
        "coordinator": bundle.coordinator,
        "operator": bundle.operator,
        "sites": sites,
    }
    return made.model_copy(update={**blanked(made), **told})
