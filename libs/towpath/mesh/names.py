"""Names of a mesh's processes, and the subjects on which a server answers questions about itself."""

from __future__ import annotations

from towpath.contracts.message import HUB_SCOPE

SUPERVISOR = "local"
"""The process that starts all others of a machine."""


def hub_processes(nodes: int) -> list[str]:
    """Return the names of the hub's servers: `hub`, and `hub-2` and so on of a hub with several."""
    return [HUB_SCOPE, *(f"{HUB_SCOPE}-{number}" for number in range(2, nodes + 1))]


def is_hub_process(name: str) -> bool:
    """Return True if a process of this name is a server of the hub."""
    return name == HUB_SCOPE or name.removeprefix(f"{HUB_SCOPE}-").isdecimal()


def engine_process(site: str, job: str | None = None) -> str:
    """Return the process name of a site's engine, or of the engine of one job.

    Names of sites and jobs have no dot.
    """
    return f"{site}-engine" if job is None else f"{site}-engine.{job}"


def is_engine_process(name: str) -> bool:
    """Return True if a process of this name is an engine. Then a JVM and Python processes belong to it."""
    return name.partition(".")[0].endswith("-engine")


SERVER_HEALTH = "$SYS.REQ.SERVER.PING.HEALTHZ"
"""Asks a site's server for its health. The answer is about its own side alone: leaves do not pass it."""

SERVER_TOTALS = "$SYS.REQ.SERVER.PING.VARZ"
"""Asks a site's server for its traffic in all."""

SERVER_CONNECTIONS = "$SYS.REQ.SERVER.PING.CONNZ"
"""Asks a site's server for its connections."""

CONNECTION_ENDED = "$SYS.ACCOUNT.MESH.DISCONNECT"
"""The hub's server tells that a connection has ended, and why: also one that it ended itself."""

LOGIN_REFUSED = "$SYS.SERVER.*.CLIENT.AUTH.ERR"
"""The hub's server tells that it refused a login."""

SERVER_NOTICES = (CONNECTION_ENDED, LOGIN_REFUSED)

SERVER_QUESTIONS = (SERVER_HEALTH, SERVER_TOTALS, SERVER_CONNECTIONS)
