"""A site whose server and engine are containers that its agent runs.

Whatever happens to them, to the agent or to the daemon, the job's results equal those of a site of processes.

One stream of events flows through one mesh. Each test disturbs the mesh meanwhile, and the last one judges
the results.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from docker.client import DockerClient
from docker.models.containers import Container

from running.command_line import CommandLine, read_line
from running.daemon_forwarder import DaemonForwarder
from running.places import EXAMPLES
from towpath.containers.daemon import daemon
from towpath.containers.running import MEGABYTE
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.processes import find

pytestmark = [pytest.mark.timeout(400)]

IMAGE = "towpath-site:local"
EVENTS, RATE = 2_400, 25
WITHIN_S = 240.0
"""An engine starts in some seconds; on a machine that does much else at the same time it takes minutes."""

CONFIGURATION = """
[[sites]]
name = "jfk"
[sites.engine]
start = "always"
memory = "512m"
spark_master = "local[1]"
[sites.container]
runtime = "docker"
image = "{image}"
docker_host = "{host}"
[sites.container.engine]
memory_mb = 1500
[sites.container.server]
memory_mb = 400

[[sites]]
name = "cloud"
[sites.engine]
memory = "512m"
spark_master = "local[1]"
"""

OWN_ENGINE = """
name: own
site: jfk
inputs: [{site: jfk, topic: site/departures}]
output: {topic: departures/own}
operator: {kind: filter, fields: {id: long, delay: double}, where: delay > 60}
container: {memory_mb: 1100, cpus: 1.5}
"""

HOG = """
import time
taken = []
while True:
    taken.append(bytearray(20_000_000))
    time.sleep(0.02)
"""


@dataclass
class Trial:
    """The mesh, and the daemon as the mesh sees it and as it is."""

    line: CommandLine
    forwarder: DaemonForwarder
    docker: DockerClient
    image: str
    replay: subprocess.Popen[str]
    check: subprocess.Popen[str]
    """Has subscribed to the results before the first event, and judges them once all have come."""

    @property
    def home(self) -> Home:
        return Home(self.line.home)

    def containers(self) -> dict[str, Container]:
        """Return the containers of this mesh by the name of their process."""
        ours = {"label": f"towpath.home={self.line.home}"}
        found = self.docker.containers.list(all=True, ignore_removed=True, filters=ours)
        return {container.labels["towpath.process"]: container for container in found}

    def site(self) -> dict[str, Any]:
        return next(site for site in self.line.json("sites") if site["site"] == "jfk")

    def job(self, name: str = "hourly-jfk") -> dict[str, Any]:
        return next(job for job in self.line.json("jobs") if job["spec"]["name"] == name)

    def pid(self, name: str) -> int:
        record = find(self.home.run, name)
        assert record is not None, name
        return record.pid

    def until(self, condition: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        end = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < end, self.site()
            time.sleep(0.2)
        return found

    def until_up(self) -> None:
        self.until(lambda: self.site()["state"] == "up")

    def processed(self) -> int:
        return max((self.job()["status"] or {"serials": {}})["serials"].values(), default=0)


@pytest.fixture(scope="module")
def image(docker_daemon: str) -> Iterator[str]:
    """The image of sites under a name of this test's, which may be taken away."""
    name = f"towpath-test-site:{os.getpid()}"
    with daemon(docker_daemon) as docker:
        docker.images.get(IMAGE).tag(*name.split(":"))
        yield name
        docker.images.remove(name, force=True)


@pytest.fixture(scope="module")
def trial(docker_daemon: str, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """A mesh through which events flow. Two jobs: `clean-jfk`, and `hourly-jfk` behind it."""
    directory = tmp_path_factory.mktemp("runtime")
    line = CommandLine(directory / "mesh")
    with tempfile.TemporaryDirectory() as short, daemon(docker_daemon, 60) as docker:
        forwarder = DaemonForwarder(Path(short) / "docker.sock", docker_daemon)
        forwarder.come()
        (directory / "towpath.toml").write_text(CONFIGURATION.format(host=forwarder.host, image=image))
        replay = check = None
        try:
            up = ("up", "--config", str(directory / "towpath.toml"), "--within", str(WITHIN_S))
            started = line.run(*up, within_s=WITHIN_S + 30)
            assert started.returncode == 0, started.stderr
            for name in ("clean", "window"):
                deployed = line.run("deploy", str(EXAMPLES / f"{name}.yaml"))
                assert deployed.returncode == 0, deployed.stderr
            flow = ("--airport", "JFK", "--limit", str(EVENTS), "--rate", str(RATE), "--close")
            truth = ("--against", "departures", "--airport", "JFK", "--limit", str(EVENTS))
            collect = ("--site", "jfk", "--for", "900", "--until-complete")
            check = line.start("check", "departures/hourly", *collect, *truth, "--json")
            assert "subscribed" in read_line(check, "stderr")
            replay = line.start("replay", "--site", "jfk", *flow)
            yield Trial(line, forwarder, docker, image, replay, check)
        finally:
            for process in filter(None, (replay, check)):
                process.kill()
                process.wait()
            line.run("down", within_s=60)
            forwarder.go()


def test_parts_of_the_site_when_up_are_containers_with_their_limits(trial: Trial) -> None:
    found = trial.containers()
    assert set(found) == {"jfk-nats", "jfk-engine"}
    limits = {name: container.attrs["HostConfig"]["Memory"] for name, container in found.items()}
    assert limits == {"jfk-nats": 400 * MEGABYTE, "jfk-engine": 1500 * MEGABYTE}
    processes = {process["name"]: process for process in trial.site()["processes"]}
    for name in found:
        assert processes[name]["pid"] == found[name].attrs["State"]["Pid"]
        assert processes[name]["memory_mb"] > 1
    assert "engine of jfk is ready" in trial.home.log("jfk-engine").read_text()


def test_job_when_it_moves_between_containers_and_processes_then_goes_on(trial: Trial) -> None:
    moved = trial.line.json(
        "migrate", "hourly-jfk", "--to", "cloud", "--strategy", "handover", "--within", "120"
    )
    assert [answer["state"] for answer in moved] == ["completed"]
    back = trial.line.json("migrate", "hourly-jfk", "--to", "jfk", "--strategy", "general", "--within", "120")
    assert [answer["state"] for answer in back] == ["completed"]
    before = trial.processed()
    trial.until(lambda: trial.processed() > before)


def test_engine_when_it_is_out_of_memory_then_the_site_says_so_and_its_jobs_go_on(trial: Trial) -> None:
    before = trial.processed()
    engine = trial.containers()["jfk-engine"]
    # The JVM must be the process in the container that the system kills.
    for process in psutil.Process(trial.pid("jfk-engine")).children(recursive=True):
        if process.name() == "java":
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    hog = engine.client.api.exec_create(engine.id, ["python", "-c", HOG])
    engine.client.api.exec_start(hog, detach=True)
    said = trial.until(lambda: (error := trial.site()["error"]) and "lack of memory" in error and error)
    assert "1500 MB" in said
    trial.until_up()
    engines = [process for process in trial.site()["processes"] if process["name"] == "jfk-engine"]
    assert engines[0]["restarts"] >= 1
    trial.until(lambda: trial.processed() > before)


def test_site_when_the_daemon_is_away_then_says_so_and_comes_back_with_it(trial: Trial) -> None:
    trial.forwarder.go()
    try:
        trial.until(lambda: "no container daemon answers" in (trial.site()["error"] or ""))
        assert trial.site()["state"] == "up"  # Running containers go on.
        os.kill(trial.pid("jfk-engine"), signal.SIGKILL)
        trial.until(lambda: trial.site()["state"] == "starting")
        assert "no container daemon answers" in trial.site()["error"]
    finally:
        trial.forwarder.come()
    trial.until_up()


def test_containers_when_the_agent_is_killed_then_go_on_and_the_next_agent_has_them(trial: Trial) -> None:
    before = {name: trial.pid(name) for name in ("jfk-nats", "jfk-engine")}
    agent = trial.pid("jfk-agent")
    os.kill(agent, signal.SIGKILL)
    trial.until(lambda: (record := find(trial.home.run, "jfk-agent")) and record.pid != agent)
    log = trial.home.log("jfk-agent")
    trial.until(lambda: "agent of jfk is ready" in log.read_text())
    trial.until_up()
    assert {name: trial.pid(name) for name in before} == before


def test_migration_when_the_image_is_missing_then_is_refused_in_role_assignment(trial: Trial) -> None:
    trial.line.json("migrate", "hourly-jfk", "--to", "cloud", "--within", "120")
    kept = trial.docker.images.get(trial.image)
    trial.docker.api.remove_image(trial.image, force=True)  # The name. What runs keeps the rest of it.
    try:
        refused = trial.line.run(
            "migrate", "hourly-jfk", "--to", "jfk", "--strategy", "general", "--within", "120"
        )
        assert refused.returncode != 0
        assert "no registry gives it" in refused.stderr
        newest = trial.line.json("migrations", "--limit", "1")[0]
        journal = trial.line.json("operation", newest["operation"])["journal"]
        assert {entry["step"] for entry in journal} == {"assign-source", "assign-target"}
        assert trial.job()["site"] == "cloud"
    finally:
        kept.tag(*trial.image.split(":"))
    moved = trial.line.json(
        "migrate", "hourly-jfk", "--to", "jfk", "--strategy", "general", "--within", "120"
    )
    assert [answer["state"] for answer in moved] == ["completed"]


def test_job_when_it_asks_for_a_container_then_has_one_as_long_as_it_is_there(
    trial: Trial, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(OWN_ENGINE)
    deployed = trial.line.run("deploy", str(tmp_path / "own.yaml"))
    assert deployed.returncode == 0, deployed.stderr
    own = trial.containers()["jfk-engine.own"]
    limits = own.attrs["HostConfig"]
    assert (limits["Memory"], limits["NanoCpus"]) == (1100 * MEGABYTE, 1_500_000_000)
    trial.until(lambda: (trial.job("own")["status"] or {}).get("events"))
    removed = trial.line.run("remove", "own")
    assert removed.returncode == 0, removed.stderr
    trial.until(lambda: set(trial.containers()) == {"jfk-nats", "jfk-engine"})


def test_results_when_all_events_have_passed_then_nothing_is_lost_or_repeated(trial: Trial) -> None:
    assert trial.replay.wait(WITHIN_S) == 0
    verdict = json.loads(trial.check.communicate(timeout=WITHIN_S)[0])
    assert verdict["clean"], verdict
    assert verdict["expected"] > 200


def test_down_when_supervisor_and_agents_were_killed_then_leaves_no_container(trial: Trial) -> None:
    for name in (SUPERVISOR, "jfk-agent"):
        os.kill(trial.pid(name), signal.SIGKILL)
    processes = [psutil.Process(trial.pid(name)) for name in ("jfk-nats", "jfk-engine")]
    stopped = trial.line.json("down")["stopped"]
    assert {"jfk-nats", "jfk-engine"} <= set(stopped)
    assert trial.containers() == {}
    assert not any(process.is_running() for process in processes)
