"""A socket between a test and the machine's container daemon. It can go away while others use the daemon."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingUnixStreamServer

PIECE = 65_536


class DaemonForwarder:
    """A socket that leads to the daemon at `target`, a `unix://` address, as long as it is there."""

    def __init__(self, path: Path, target: str) -> None:
        self.host = f"unix://{path}"
        self._path = path
        self._target = target.removeprefix("unix://")
        self._server: ThreadingUnixStreamServer | None = None
        self._open: set[socket.socket] = set()

    def come(self) -> None:
        """Listen."""
        forwarder = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                forwarder._forward(self.request)

        self._server = ThreadingUnixStreamServer(str(self._path), Handler)
        self._server.daemon_threads, self._server.block_on_close = True, False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def go(self) -> None:
        """Stop listening and break all connections."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        self._path.unlink(missing_ok=True)
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _forward(self, client: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(self._target)
            self._open |= {client, daemon}
            answering = threading.Thread(target=_copy, args=(daemon, client), daemon=True)
            answering.start()
            _copy(client, daemon)
            answering.join()
            self._open -= {client, daemon}


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Copy until the source ends; then end the sink."""
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
