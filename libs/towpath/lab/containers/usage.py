"""What a container has taken of the processor."""

from __future__ import annotations

from towpath.containers.daemon import daemon
from towpath.containers.running import BILLION


def cpu_seconds(container: str, host: str | None = None) -> float | None:
    """Processor time of all that ran in it since it was started last; null while it does not run.

    Raises `DaemonError`.
    """
    with daemon(host) as docker:
        # One shot: the daemon would otherwise wait a second for a rate that nobody wants.
        told = docker.api.stats(container, stream=False, one_shot=True)
    taken = (told.get("cpu_stats") or {}).get("cpu_usage", {}).get("total_usage", 0)
    return taken / BILLION if taken else None
