"""Errors of a container daemon, and its silence, are raised as errors that say what to do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import docker.errors
import pytest
import requests

from towpath.containers.daemon import Listed, check, daemon, listed
from towpath.containers.errors import (
    Conflict,
    DaemonError,
    NoDaemon,
    NoPermission,
    NoSuchContainer,
    NoSuchImage,
    NoSuchNetwork,
    SlowDaemon,
)
from towpath.containers.translation import translated
from towpath.contracts.errors import ErrorCode
from towpath.lab.containers import control

VERSION = {"ApiVersion": "1.41", "Version": "20.10.24"}


@contextmanager
def answering(socket_path: Path, answers: dict[str, tuple[int, Any]]) -> Iterator[str]:
    """A daemon that answers requests by the end of their path; `DOCKER_HOST` of it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            found = [answer for end, answer in answers.items() if path.endswith(end)]
            status, content = found[0] if found else (200, VERSION)
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def address_string(self) -> str:
            return "client"

    with ThreadingUnixStreamServer(str(socket_path), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"unix://{socket_path}"
        finally:
            server.shutdown()


def test_daemon_when_none_listens_then_the_error_says_where_and_how_to_start_one(tmp_path: Path) -> None:
    host = f"unix://{tmp_path}/missing.sock"
    with pytest.raises(NoDaemon, match=r"No such file.*infra/docker/daemon\.sh") as refused:
        check(host)
    detail = refused.value.detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.UNREACHABLE, "DOCKER_HOST", host)


def test_daemon_when_its_host_makes_no_sense_then_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "somewhere://else")
    with pytest.raises(NoDaemon) as refused:
        check()
    assert refused.value.detail.value == "somewhere://else"


def test_daemon_when_the_user_may_not_ask_it_then_the_error_says_who_may() -> None:
    inner = requests.ConnectionError("Connection aborted.", PermissionError(13, "Permission denied"))
    error = docker.errors.DockerException(f"Error while fetching server API version: {inner}")
    error.__cause__ = inner
    found = translated(error)
    assert isinstance(found, NoPermission)
    assert found.detail.code is ErrorCode.NOT_ALLOWED
    assert "docker" in str(found.detail.allowed)


def test_daemon_when_it_hangs_then_the_deadline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "hanging.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(SlowDaemon) as refused, daemon(f"unix://{path}", answer_s=1) as docker:
            docker.ping()
    assert refused.value.detail.code is ErrorCode.DEADLINE


def test_daemon_when_it_is_there_again_then_it_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with pytest.raises(NoDaemon):
        check(f"unix://{path}")
    with answering(path, {}) as host:
        assert check(host) == "20.10.24"


@pytest.mark.parametrize(
    ("status", "message", "kind", "code", "field", "value"),
    [
        (404, "No such container: jfk", NoSuchContainer, ErrorCode.INVALID, "container", "jfk"),
        (
            404,
            "No such image: towpath-site:local",
            NoSuchImage,
            ErrorCode.INVALID,
            "image",
            "towpath-site:local",
        ),
        (404, "network site-jfk not found", NoSuchNetwork, ErrorCode.INVALID, "network", "site-jfk"),
        (
            409,
            'Conflict. The container name "/jfk" is already in use by container "1a".',
            Conflict,
            ErrorCode.NAME_IN_USE,
            "container",
            "jfk",
        ),
        (409, "Container jfk is paused.", Conflict, ErrorCode.NOT_ALLOWED, "container", None),
        (500, "no space left on device", DaemonError, ErrorCode.FAILED, "container", None),
    ],
)
def test_daemon_when_it_refuses_then_the_error_says_what_of_which_kind(
    tmp_path: Path,
    status: int,
    message: str,
    kind: type[DaemonError],
    code: ErrorCode,
    field: str,
    value: str | None,
) -> None:
    with (
        answering(tmp_path / "docker.sock", {"/json": (status, {"message": message})}) as host,
        pytest.raises(kind) as refused,
        daemon(host) as docker,
    ):
        docker.api.inspect_container("any")
    detail = refused.value.detail
    assert (detail.code, detail.field, detail.value) == (code, field, value)


def test_container_when_there_is_none_of_the_name_then_those_there_are_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = {"Networks": {"services": {}, "none": {}}}
    jfk = {"Id": "1a", "Names": ["/lga/jfk", "/jfk"], "NetworkSettings": networks}
    answers = {
        "/containers/lga/json": (404, {"message": "No such container: lga"}),
        "/containers/json": (200, [jfk]),
    }
    with answering(tmp_path / "docker.sock", answers) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(NoSuchContainer) as refused:
            control.kill("lga")
        assert refused.value.detail.allowed == ["jfk"]
        control.resume("lga")
        with daemon() as docker:
            assert listed(docker) == [Listed("1a", "jfk", frozenset({"services"}))]
