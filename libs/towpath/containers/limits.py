"""What a container may use of its machine, as the daemon counts it."""

from __future__ import annotations

from typing import Any

from towpath.contracts.job import ContainerLimits

BILLION = 10**9
"""The daemon counts parts of a processor in these."""

MEGABYTE = 1024**2
"""As Docker's and Java's `m`, compose files among them: one number means one size wherever it is given."""


def limiting(limits: ContainerLimits) -> dict[str, Any]:
    """The options of a new container. It gets no swap: what is out of memory is killed, not slow."""
    options: dict[str, Any] = {}
    if limits.cpus is not None:
        options["nano_cpus"] = round(limits.cpus * BILLION)
    if limits.memory_mb is not None:
        options["mem_limit"] = options["memswap_limit"] = limits.memory_mb * MEGABYTE
    return options
