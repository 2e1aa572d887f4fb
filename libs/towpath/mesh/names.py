"""Names of a mesh's processes, and the subjects on which a server tells about itself."""

from __future__ import annotations

from collections.abc import Iterable

from towpath.contracts.message import HUB_SCOPE

SUPERVISOR = "local"
"""The process that starts all others of a machine."""

SHARED_PROCESSES = (HUB_SCOPE, "redis", "coordinator", "monitor", "collector", "api")
"""What every mesh runs beside its sites."""

LINKS_PROCESS = "links"
"""What it also runs where it emulates links."""

INJECTOR_PROCESS = "injector"
"""What it also runs where fault rules may be loaded."""

SITE_PARTS = ("nats", "agent", "engine")
"""What every site runs; its processes are called `<site>-<part>`."""


def processes_of(sites: Iterable[str], *, emulate_links: bool, faults: bool) -> list[str]:
    """Names of the processes that a mesh consists of, without the one that starts them."""
    links = [LINKS_PROCESS] if emulate_links else []
    injector = [INJECTOR_PROCESS] if faults else []
    return [
        *SHARED_PROCESSES,
        *injector,
        *links,
        *(f"{site}-{part}" for site in sites for part in SITE_PARTS),
    ]


def engine_process(site: str, job: str | None = None) -> str:
    """The process name of a site's engine, or of the one that a job has for itself. Names of sites and jobs
    have no dot."""
    return f"{site}-engine" if job is None else f"{site}-engine.{job}"


def is_engine_process(name: str) -> bool:
    """Whether a process of this name is an engine: a JVM and Python processes hang together with it."""
    return name.partition(".")[0].endswith("-engine")


SERVER_HEALTH = "$SYS.REQ.SERVER.PING.HEALTHZ"
"""Asks a site's server whether it works. What it answers to is its own side alone: leaves do not pass it."""

SERVER_TOTALS = "$SYS.REQ.SERVER.PING.VARZ"
"""Asks it the same way what went in and out of it in all."""

SERVER_CONNECTIONS = "$SYS.REQ.SERVER.PING.CONNZ"
"""And over which connections."""

SERVER_QUESTIONS = (SERVER_HEALTH, SERVER_TOTALS, SERVER_CONNECTIONS)
