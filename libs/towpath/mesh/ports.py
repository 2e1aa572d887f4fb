"""Pick TCP ports that are free now and are likely to stay so."""

from __future__ import annotations

import random
import socket

from towpath.contracts.errors import ErrorCode, TowpathError

PORTS = range(15000, 32768)
"""Below the ports that systems hand to outgoing connections: a mesh keeps its ports while it is down, and no
connection should take them by chance."""

ATTEMPTS = 500


def free_port(taken: set[int], *, address: str = "127.0.0.1") -> int:
    """Return a free port on `address`, none of `taken`, and add it to these. Raises `TowpathError`."""
    for _ in range(ATTEMPTS):
        port = random.choice(PORTS)
        if port not in taken and _is_free(address, port):
            taken.add(port)
            return port
    raise TowpathError(
        ErrorCode.FAILED, "no free port", field="listen", value=address, allowed="an address of this machine"
    )


def _is_free(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
