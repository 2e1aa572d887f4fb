"""A double of the Docker daemon: its API on a Unix socket, with processes instead of containers.

It answers as Docker 20.10 does. What it "runs" are real processes with real pids, whose files are the
machine's: enough for names, starts, ends, adoption and errors, and nothing of isolation.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, Any]


@dataclass
class FakeContainer:
    """A container of the double: a process, or none yet."""

    name: str
    body: dict[str, Any]
    """Body of the request that made it."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex * 2)
    process: subprocess.Popen[bytes] | None = None
    out_of_memory: bool = False
    mounts: list[dict[str, Any]] = field(default_factory=list)

    unnoticed_looks: int = 0
    """Number of answers that still say `running` after it has ended."""

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def said_to_run(self) -> bool:
        if self.process is None or self.running:
            return self.running
        self.unnoticed_looks -= 1
        return self.unnoticed_looks >= 0

    def start(self) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        given = dict(pair.split("=", 1) for pair in self.body.get("Env") or [])
        command = [*self.body["Entrypoint"], *self.body["Cmd"]]
        self.process = subprocess.Popen(command, env={"PATH": path, **given}, start_new_session=True)

    def end(self, grace_s: float) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def inspected(self) -> dict[str, Any]:
        said_to_run = self.said_to_run
        code = self.process.poll() if self.process is not None and not said_to_run else 0
        return {
            "Id": self.id,
            "Name": f"/{self.name}",
            "Config": {"Labels": self.body.get("Labels")},
            "Mounts": self.mounts,
            "HostConfig": {"Memory": 0, **self.body["HostConfig"]},
            "State": {
                "Running": said_to_run,
                "Pid": self.process.pid if self.process is not None and self.running else 0,
                "ExitCode": 128 - code if code is not None and code < 0 else code or 0,
                "OOMKilled": self.out_of_memory and (self.running or not said_to_run),
                "Error": "",
            },
        }


class DockerDouble:
    """The daemon. Use it as a context manager; it can go away and come back in between."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / "docker.sock"
        self.host = f"unix://{self._socket}"
        self.images = {"site:1"}
        self.archived = {"site:2"}
        """Images that the next archive brings."""
        self.containers: dict[str, FakeContainer] = {}
        self.is_slow_to_say = False
        """True if it answers that a container has started only when that has ended."""
        self._server: ThreadingUnixStreamServer | None = None

    def __enter__(self) -> DockerDouble:
        self.come_back()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_away()
        for container in self.containers.values():
            container.end(0)

    def come_back(self) -> None:
        """Listen."""
        self._server = ThreadingUnixStreamServer(str(self._socket), _handler(self))
        self._server.daemon_threads, self._server.block_on_close = True, False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def go_away(self) -> None:
        """Stop listening. What runs goes on, as with `live-restore`."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            self._socket.unlink(missing_ok=True)

    def run_out_of_memory(self, name: str) -> None:
        """Kill a container as the system does when it needs more memory than it may use."""
        container = self.containers[name]
        assert container.process is not None
        container.out_of_memory = True
        os.killpg(container.process.pid, signal.SIGKILL)

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        """Return the answer to a request."""
        split = urlsplit(target)
        path = unquote(re.sub(r"^/v[0-9.]+", "", split.path))
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        for verb, pattern, answer in self._routes():
            found = re.fullmatch(pattern, path)
            if verb == method and found is not None:
                return answer(*found.groups(), query, body)
        return 404, {"message": f"page not found: {method} {path}"}

    def _routes(self) -> list[tuple[str, str, Callable[..., Answer]]]:
        return [
            ("GET", "/version", lambda query, body: (200, {"ApiVersion": "1.41", "Version": "20.10.24"})),
            ("GET", "/images/(.+)/json", self._image),
            ("POST", "/images/create", lambda query, body: (404, {"message": "pull access denied for x"})),
            ("POST", "/images/load", self._load),
            ("POST", "/containers/create", self._create),
            ("GET", "/containers/(.+)/json", self._inspect),
            ("GET", "/containers/(.+)/stats", self._stats),
            ("POST", "/containers/(.+)/start", self._start),
            ("POST", "/containers/(.+)/stop", self._stop),
            ("DELETE", "/containers/([^/]+)", self._remove),
        ]

    def _of(self, name: str) -> FakeContainer | None:
        known = self.containers.values()
        return next((each for each in known if name in (each.name, each.id)), None)

    def _image(self, name: str, query: dict[str, str], body: bytes) -> Answer:
        if name not in self.images:
            return 404, {"message": f"No such image: {name}"}
        return 200, {"Id": f"sha256:{name}", "RepoTags": [name]}

    def _load(self, query: dict[str, str], body: bytes) -> Answer:
        self.images |= self.archived
        return 200, {"stream": f"Loaded image: {sorted(self.archived)[0]}\n"}

    def _create(self, query: dict[str, str], body: bytes) -> Answer:
        asked = json.loads(body)
        if asked["Image"] not in self.images:
            return 404, {"message": f"No such image: {asked['Image']}"}
        if query["name"] in self.containers:
            return 409, {
                "message": f'Conflict. The container name "/{query["name"]}" is already in use by x.'
            }
        made = self.containers[query["name"]] = FakeContainer(query["name"], asked)
        return 201, {"Id": made.id, "Warnings": []}

    def _inspect(self, name: str, query: dict[str, str], body: bytes) -> Answer:
        found = self._of(name)
        return (200, found.inspected()) if found else _missing(name)

    def _stats(self, name: str, query: dict[str, str], body: bytes) -> Answer:
        if self._of(name) is None:
            return _missing(name)
        return 200, {"memory_stats": {"usage": 70_000_000, "stats": {"total_inactive_file": 20_000_000}}}

    def _start(self, name: str, query: dict[str, str], body: bytes) -> Answer:
        found = self._of(name)
        if found is None:
            return _missing(name)
        found.start()
        if self.is_slow_to_say and found.process is not None:
            found.process.wait(10)
        return 204, None

    def _stop(self, name: str, query: dict[str, str], body: bytes) -> Answer:
        found = self._of(name)
        if found is None:
            return _missing(name)
        found.end(float(query["t"]))
        return 204, None

    def _remove(self, name: str, query: dict[str, str], body: bytes) -> Answer:
        found = self._of(name)
        if found is None:
            return _missing(name)
        found.end(0)
        del self.containers[found.name]
        return 204, None


def _missing(name: str) -> Answer:
    return 404, {"message": f"No such container: {name}"}


def _handler(double: DockerDouble) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # One request per connection: on a kept one, a daemon that has gone away would still answer.
        protocol_version = "HTTP/1.0"

        def reply(self) -> None:
            body = self._body()
            status, content = double.answer(self.command, self.path, body)
            self.send_response(status)
            if content is None:
                self.end_headers()
                return
            text = json.dumps(content).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            chunks: list[bytes] = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            return b"".join(chunks)

        do_GET = do_POST = do_DELETE = reply

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def address_string(self) -> str:
            return "client"

    return Handler
