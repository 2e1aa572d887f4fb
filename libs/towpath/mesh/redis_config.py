"""Render the configuration of Redis. It serves the registry, and carries state between sites."""

from __future__ import annotations

import hashlib

from towpath.contracts.credential import Credential
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState

COORDINATOR_KEYS = "towpath:*"
TRANSFER_KEYS = "towpath:transfer:*"
"""State on its way from one site to another. Sites may touch no other keys."""

REWRITE_FROM = "64mb"
"""From this size on, Redis rewrites its file without outdated entries when it has doubled. Chunks of state
pass through the file, too: from 1 MB on, it would be rewritten after about ten of them."""

MOST_MEMORY = "1gb"
"""Redis stores no more than this. The registry of a large mesh takes some hundred megabytes, and a transfer
has at most eight chunks on their way."""

_COORDINATOR_COMMANDS = "+@all -@admin -@dangerous +info +acl|log"
_SITE_COMMANDS = "+@stream +@transaction +del +expire +ping +hello +auth +select +reset +client|setname"


def redis_config(state: MeshState, home: Home) -> str:
    """Return the configuration.

    The registry's log at the hub is on the disk before a write is acknowledged, and the coordinator brings
    Redis up to it. So it is enough to write once a second here, and chunks of state wait for no disk.
    """
    users = [_user(state.redis_coordinator, COORDINATOR_KEYS, _COORDINATOR_COMMANDS)]
    users += [
        _user(a.redis, TRANSFER_KEYS, _SITE_COMMANDS) for _, a in sorted(state.sites.items()) if a.has_joined
    ]
    lines = [
        # Its wheel is built without TLS: a door before it encrypts, see `towpath.redis_door`.
        f"bind {'127.0.0.1' if state.tls else state.spec.listen}",
        f"port {state.redis_port}",
        "protected-mode yes",
        "daemonize no",
        f'dir "{_escaped(str(home.redis))}"',
        "appendonly yes",
        "appendfsync everysec",
        # The file grows with every step of every operation, and with all state that travels.
        f"auto-aof-rewrite-min-size {REWRITE_FROM}",
        f"maxmemory {MOST_MEMORY}",
        "maxmemory-policy noeviction",
        'save ""',
        "user default off resetpass -@all",
        *users,
    ]
    return "\n".join(lines) + "\n"


def _user(credential: Credential, keys: str, commands: str) -> str:
    # Redis compares hashes itself, so the password need not stand here.
    digest = hashlib.sha256(credential.password.encode()).hexdigest()
    return f"user {credential.user} on #{digest} ~{keys} resetchannels {commands}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
