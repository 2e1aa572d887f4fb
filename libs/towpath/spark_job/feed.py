"""The job's connection to the process that has its events and takes its results."""

from __future__ import annotations

import json
import socket
from typing import Any

WITHIN_S = 120.0
"""Time for an answer. Results are answered when they are on the disk."""


class Feed:
    """Asks one question at a time. Blocks."""

    def __init__(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WITHIN_S)
        self._socket.connect(f"\0{name}")
        self._answers = self._socket.makefile("rb")

    def ask(self, **question: Any) -> Any:
        """Send a question and return its answer. Raises `ConnectionError` if the other end is gone."""
        self._socket.sendall(json.dumps(question).encode() + b"\n")
        answer = self._answers.readline()
        if not answer:
            raise ConnectionError("the gateway's process is gone")
        return json.loads(answer)
