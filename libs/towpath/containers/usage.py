"""What a container has taken of the processor, and takes of the memory."""

from __future__ import annotations

from towpath.containers.daemon import daemon

NANO = 1_000_000_000
MB = 1024**2


def cpu_seconds(container: str, host: str | None = None) -> float | None:
    """Processor time of all that ran in it since it was started last; null while it does not run.

    Raises `DaemonError`.
    """
    with daemon(host) as docker:
        # One shot: the daemon would otherwise wait a second for a rate that nobody wants.
        told = docker.api.stats(container, stream=False, one_shot=True)
    taken = (told.get("cpu_stats") or {}).get("cpu_usage", {}).get("total_usage", 0)
    return taken / NANO if taken else None


def memory_mb(container: str, host: str | None = None) -> float | None:
    """Memory of all that runs in it, without files that the kernel keeps in memory only while there is room;
    null while it does not run. Raises `DaemonError`.
    """
    with daemon(host) as docker:
        told = docker.api.stats(container, stream=False, one_shot=True).get("memory_stats") or {}
    if "usage" not in told:
        return None
    details = told.get("stats") or {}
    return (told["usage"] - details.get("inactive_file", details.get("total_inactive_file", 0))) / MB
