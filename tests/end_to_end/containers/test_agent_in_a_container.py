"""An agent in a container starts containers beside its own, through the daemon's socket."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.client import DockerClient

from towpath.containers.daemon import daemon

IMAGE = "towpath-site:local"
KEPT = "/var/lib/towpath"
SOCKET = "/var/run/docker.sock"

AGENT = """
import asyncio, json, logging, os, sys
from pathlib import Path
import psutil
from towpath.processes import ChildSpec, Container, Supervisor, find

logging.basicConfig()
HOME = Path("/var/lib/towpath")
SERVER = '''
import http.server, json, os
print(json.dumps({"socket": os.path.exists("/var/run/docker.sock"), "uid": os.getuid()}), flush=True)
http.server.HTTPServer(("127.0.0.1", 8123), http.server.SimpleHTTPRequestHandler).serve_forever()
'''

async def answers():
    _, writer = await asyncio.open_connection("127.0.0.1", 8123)
    writer.close()
    return True

async def main(image):
    contained = Container(HOME, image, (HOME,))
    command = (sys.executable, "-c", SERVER)
    spec = ChildSpec("jfk-nats", command, HOME / "logs" / "nats.log", ready=answers, container=contained)
    async with Supervisor([spec], HOME / "run") as supervisor:
        await supervisor.wait_ready(60)
        [status] = await supervisor.status()
        process = psutil.Process(find(HOME / "run", "jfk-nats").pid)
        said = json.loads(spec.log.read_text().splitlines()[0])
        told = {"memory_mb": status.memory_mb, "command": process.cmdline()[:2], **said}
    print(json.dumps({**told, "left": psutil.pid_exists(process.pid)}))

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
def docker(docker_daemon: str) -> Iterator[DockerClient]:
    with daemon(docker_daemon, 60) as client:
        yield client


def test_child_when_its_agent_is_in_a_container_then_shares_network_and_processes_but_not_the_socket(
    docker: DockerClient, docker_daemon: str
) -> None:
    name = f"towpath-test-agent-{uuid.uuid4().hex[:8]}"
    kept, socket = docker.volumes.create(name), docker_daemon.removeprefix("unix://")
    user = f"10001:{Path(socket).stat().st_gid}"  # The image's, in the group that may ask the daemon.
    binds = [f"{socket}:{SOCKET}:rw", f"{name}:{KEPT}:rw"]
    agent = docker.containers.create(
        IMAGE, ["python", "-c", AGENT, IMAGE], name=name, volumes=binds, network_mode="none", user=user
    )
    try:
        agent.start()
        ended = agent.wait(timeout=120)
        output = agent.logs().decode()
        assert ended["StatusCode"] == 0, output
        told = json.loads(output.splitlines()[-1])
        assert told["command"] == ["python", "-c"]
        assert (told["socket"], told["uid"], told["left"]) == (False, 10001, False)
        assert told["memory_mb"] > 1
    finally:
        agent.remove(force=True, v=True)
        kept.remove(force=True)
