"""The secrets of each container of a mesh, to log in with and to let others in: one file per container."""

from __future__ import annotations

import hashlib
from pathlib import Path

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.contracts.site import Addresses
from towpath.mesh.home import Home
from towpath.mesh.nats_config import hub_config
from towpath.mesh.redis_config import redis_config
from towpath.mesh.service_table import SERVERS, hub_services
from towpath.mesh.state import MeshState
from towpath.mesh.views import EVERYWHERE, service_view, site_view

CONTAINER_HOME = Home(Path("/var/lib/towpath"))
"""The mesh's directory in every container: what the container keeps."""

ADDRESSES = Addresses(hub="hub", redis="redis", links="links")
"""Containers find each other under the names that they have in the compose file."""

DIGEST = "TOWPATH_SECRET_DIGEST"
"""Environment variable of each container."""

READABLE = 0o444
"""Containers run as another user. On the machine itself the directory keeps others away."""


def secret_name(part: str) -> str:
    """Return the name of a container's file: a server's configuration, or a view of the mesh."""
    return f"{part}.conf" if part in SERVERS else f"{part}.json"


def digest_name(part: str) -> str:
    """Return the name of the file with the digest of a container's secret."""
    return f"{part}.env"


def secrets_of(mesh: MeshState) -> dict[str, str]:
    """Return for each container all that it may know of the mesh, as the text of its file."""
    spec = mesh.spec.model_copy(update={"listen": EVERYWHERE})
    listening = mesh.model_copy(update={"spec": spec})
    servers = {
        "hub": hub_config(listening, CONTAINER_HOME),
        "redis": redis_config(listening, CONTAINER_HOME),
    }
    services = {
        service.name: service_view(mesh, service.name, ADDRESSES).to_text()
        for service in hub_services()
        if service.runs(mesh.spec)
    }
    sites = {name: site_view(mesh, name, ADDRESSES).to_text() for name in mesh.sites}
    return {**servers, **services, **sites}


def write_secrets(mesh: MeshState, directory: Path) -> None:
    """Put two files for each container into `directory`, which only its owner may enter: its secret, and the
    digest of that. Files of containers that the mesh no longer has are deleted.

    The digest is part of the container's environment, because compose compares the environment with that of
    the running container, but not the contents of mounted files. So only containers with a changed secret are
    replaced.
    """
    make_private_directory(directory)
    texts: dict[str, str] = {}
    for part, text in secrets_of(mesh).items():
        texts[secret_name(part)] = text
        texts[digest_name(part)] = f"{DIGEST}={hashlib.sha256(text.encode()).hexdigest()[:16]}\n"
    for name, text in texts.items():
        write_private_file(directory / name, text, mode=READABLE)
    for path in directory.iterdir():
        if path.name not in texts:
            path.unlink()
