"""Children in containers behave like processes, whatever happens to the supervisor or the daemon."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from running.docker_double import DockerDouble, FakeContainer
from running.waiting import WITHIN_S, eventually
from towpath.containers import running
from towpath.containers.running import MEGABYTE
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ContainerLimits
from towpath.processes import Backoff, ChildSpec, Container, Supervisor, find, listed, stop
from towpath.processes.contained import adoptable, container_name, launch, status

QUICK = Backoff(first_s=0.01, longest_s=0.05, healthy_s=30)
WORKER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("ends", flush=True), sys.exit(0)))
print("begins", os.environ.get("COLOUR"), flush=True)
time.sleep({life})
sys.exit({code})
"""


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[DockerDouble]:
    with DockerDouble(tmp_path) as double:
        yield double


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def worker(
    tmp_path: Path, docker: DockerDouble, *, life: float = 60, code: int = 0, image: str = "site:1", **options
) -> ChildSpec:
    """Return a child that notes when it begins and when it is asked to end."""
    contained = Container(
        tmp_path, image, (tmp_path,), docker_host=docker.host, **options.pop("container", {})
    )
    command = (sys.executable, "-c", WORKER.format(life=life, code=code))
    return ChildSpec("jfk-engine", command, tmp_path / "jfk-engine.log", container=contained, **options)


def name_of(spec: ChildSpec) -> str:
    assert spec.container is not None
    return container_name(spec.container, spec.name)


def pid_of(run: Path) -> int:
    record = find(run, "jfk-engine")
    assert record is not None
    return record.pid


async def test_container_is_listed_as_a_process_is_when_it_runs(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    spec = worker(tmp_path, docker, environment={"COLOUR": "blue"})
    async with Supervisor([spec], run) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
        process = docker.containers[name_of(spec)].process
        assert process is not None
        assert pid_of(run) == process.pid
        await eventually(lambda: spec.log.read_text() == "begins blue\n")
        [found] = await supervisor.status()
        assert (found.pid, found.running, found.memory_mb) == (process.pid, True, 50.0)
    assert spec.log.read_text().endswith("ends\n")
    assert listed(run) == []
    assert docker.containers == {}


def test_container_when_made_then_logs_and_exports_telemetry_as_we_do_and_knows_nothing_else_of_us(
    docker: DockerDouble, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        "TOWPATH_LOG": "json",
    }
    for name, value in {**wanted, "SECRET_OF_OURS": "x"}.items():
        monkeypatch.setenv(name, value)
    spec = worker(tmp_path, docker)
    launch(spec, run)
    given = dict(pair.split("=", 1) for pair in docker.containers[name_of(spec)].body["Env"])
    stop(run, "jfk-engine", grace_s=5)
    assert wanted.items() <= given.items()
    assert "SECRET_OF_OURS" not in given


def test_container_when_made_then_has_no_privileges_and_no_more_than_it_may_use(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    limits = ContainerLimits(cpus=0.5, memory_mb=300)
    spec = worker(tmp_path, docker, container={"limits": limits, "starts_others": True})
    launch(spec, run)
    asked = docker.containers[name_of(spec)].body
    host = asked["HostConfig"]
    assert asked["User"] == f"{os.getuid()}:{os.getgid()}"
    assert (host["ReadonlyRootfs"], host["CapDrop"], host["SecurityOpt"]) == (
        True,
        ["ALL"],
        ["no-new-privileges"],
    )
    memory = 300 * MEGABYTE
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (500_000_000, memory, memory)
    assert (host["NetworkMode"], host["Init"], host["LogConfig"]) == (
        "host",
        True,
        {"Type": "none", "Config": {}},
    )
    assert host["Binds"][0] == f"{tmp_path}:{tmp_path}:rw"
    assert asked["Cmd"][0] == "python"
    assert asked["Labels"]["towpath.home"] == str(tmp_path)


def test_container_when_its_agent_is_in_one_then_shares_its_network_processes_and_what_it_needs_of_its_files(
    docker: DockerDouble, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker.containers["agent"] = FakeContainer("agent", {"HostConfig": {}}, id="abc")
    docker.containers["agent"].mounts = [
        {"Name": "kept", "Source": "/docker/kept", "Destination": str(tmp_path), "RW": True},
        {"Source": "/outside/state", "Destination": "/run/secrets/state", "RW": False},
        {"Source": "/var/run/docker.sock", "Destination": "/var/run/docker.sock", "RW": True},
    ]
    monkeypatch.setattr(running, "own_id", lambda host: "abc")
    monkeypatch.setattr("towpath.processes.contained.FIRST_PROCESS_S", 0.1)
    spec = worker(tmp_path, docker, container={"read_only": (Path("/run/secrets/state"),)})
    with pytest.raises(TowpathError):  # Its process is in no control group of a container.
        launch(spec, run)
    host = docker.containers[name_of(spec)].body["HostConfig"]
    assert (host["NetworkMode"], host["PidMode"]) == ("container:abc", "container:abc")
    assert host["Binds"] == [f"kept:{tmp_path}:rw", "/outside/state:/run/secrets/state:ro"]


async def test_container_is_adopted_when_its_supervisor_was_killed(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    spec = worker(tmp_path, docker)
    before = launch(spec, run).pid
    docker.go_away()  # It is not needed for that.
    async with Supervisor([spec], run) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
        assert pid_of(run) == before
        docker.come_back()
    assert docker.containers == {}


def test_container_is_found_when_its_starter_was_killed_before_it_wrote_down_the_pid(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    spec = worker(tmp_path, docker)
    started = launch(spec, run)
    (run / "jfk-engine.json").write_text(
        started.model_copy(update={"pid": 0, "create_time": 0.0}).model_dump_json()
    )
    assert find(run, "jfk-engine") is None
    assert adoptable(spec, run) == started
    assert pid_of(run) == started.pid


async def test_container_starts_when_its_starter_was_killed_after_making_it(
    docker: DockerDouble, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = worker(tmp_path, docker)
    with monkeypatch.context() as killed:
        killed.setattr(running, "start", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            launch(spec, run)
    assert [record.name for record in listed(run)] == ["jfk-engine"]
    async with Supervisor([spec], run, backoff=QUICK) as supervisor:
        await supervisor.wait_ready(WITHIN_S)


async def test_container_is_started_again_and_the_reason_told_when_it_is_out_of_memory(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    spec = worker(tmp_path, docker, container={"limits": ContainerLimits(memory_mb=300)})
    async with Supervisor([spec], run, backoff=QUICK) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
        first = pid_of(run)
        docker.containers[name_of(spec)].unnoticed_looks = 3
        docker.run_out_of_memory(name_of(spec))
        await eventually(lambda: (record := find(run, "jfk-engine")) and record.pid != first)
        await supervisor.wait_ready(WITHIN_S)
        [found] = await supervisor.status()
        assert found.restarts == 1
        assert "killed for lack of memory: it needs more than the 300 MB" in str(found.error)
        assert supervisor.trouble("jfk-engine") is None


@pytest.mark.parametrize(
    ("options", "reason"), [({"life": 0.2, "code": 3}, "exit code 3"), ({"life": 60}, "ended by SIGKILL")]
)
async def test_ending_of_a_container_is_told_when_it_ends_by_itself(
    docker: DockerDouble, run: Path, tmp_path: Path, options: dict[str, float], reason: str
) -> None:
    spec = worker(tmp_path, docker, **options)
    slow = Backoff(first_s=60)
    async with Supervisor([spec], run, backoff=slow) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
        if options["life"] == 60:
            os.kill(pid_of(run), signal.SIGKILL)
        await eventually(lambda: supervisor.trouble("jfk-engine"))
        assert reason in str(supervisor.trouble("jfk-engine"))


async def test_running_container_is_replaced_when_its_limits_change(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    async with Supervisor([worker(tmp_path, docker)], run, backoff=QUICK) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
        first = pid_of(run)
        changed = worker(tmp_path, docker, container={"limits": ContainerLimits(memory_mb=500)})
        await supervisor.keep(changed)
        await supervisor.wait_ready(WITHIN_S)
        assert pid_of(run) != first
        assert docker.containers[name_of(changed)].body["HostConfig"]["Memory"] == 500 * MEGABYTE
        await supervisor.drop("jfk-engine")
        assert docker.containers == {}
        assert not supervisor.keeps("jfk-engine")


async def test_process_makes_room_for_the_container_of_its_name_when_the_runtime_changes(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    contained = worker(tmp_path, docker)
    plain = ChildSpec(contained.name, contained.command, contained.log)
    async with Supervisor([plain], run, backoff=QUICK) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
        process = psutil.Process(pid_of(run))
        await supervisor.apply([contained])
        await supervisor.wait_ready(WITHIN_S)
        assert not process.is_running()
        assert docker.containers[name_of(contained)].running


async def test_supervisor_says_that_there_is_no_daemon_and_goes_on_when_it_comes(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    docker.go_away()
    async with Supervisor([worker(tmp_path, docker)], run, backoff=QUICK) as supervisor:
        await eventually(lambda: supervisor.trouble("jfk-engine"))
        assert "no container daemon answers" in str(supervisor.trouble("jfk-engine"))
        [found] = await supervisor.status()
        assert "no container daemon answers" in str(found.error)
        docker.come_back()
        await supervisor.wait_ready(WITHIN_S)


def test_stop_ends_what_runs_when_the_daemon_is_away_and_removes_the_container_later(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    spec = worker(tmp_path, docker)
    process = psutil.Process(launch(spec, run).pid)
    docker.go_away()
    assert stop(run, "jfk-engine", grace_s=5)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    assert [record.name for record in listed(run)] == ["jfk-engine"]
    docker.come_back()
    assert not stop(run, "jfk-engine", grace_s=5)
    assert (listed(run), docker.containers) == ([], {})


def test_status_says_that_a_container_runs_when_the_daemon_is_away(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    record = launch(worker(tmp_path, docker), run)
    docker.go_away()
    found = status(record)
    assert (found.running, found.pid) == (True, record.pid)
    assert found.memory_mb > 0


def test_status_tells_when_a_process_inside_was_killed_for_lack_of_memory(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    spec = worker(tmp_path, docker)
    record = launch(spec, run)
    docker.containers[name_of(spec)].out_of_memory = True
    assert "lack of memory" in str(status(record).error)


def test_launch_replaces_a_container_of_the_name_when_its_pid_file_was_deleted(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    spec = worker(tmp_path, docker)
    before = psutil.Process(launch(spec, run).pid)
    (run / "jfk-engine.json").unlink()
    after = launch(spec, run)
    assert before.pid != after.pid
    assert not before.is_running() or before.status() == psutil.STATUS_ZOMBIE
    assert find(run, "jfk-engine") == after


def test_launch_says_why_when_the_container_ends_at_once(
    docker: DockerDouble, run: Path, tmp_path: Path
) -> None:
    spec = worker(tmp_path, docker)
    missing = ChildSpec(spec.name, ("/nowhere/program",), spec.log, container=spec.container)
    docker.is_slow_to_say = True
    with pytest.raises(TowpathError, match="exit code 127") as refused:
        launch(missing, run)
    assert refused.value.detail.code is ErrorCode.FAILED
    assert "program" in spec.log.read_text()
