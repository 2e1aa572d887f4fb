"""User code on a whole mesh of two sites: from a directory to the engines, along with its job."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiomqtt
import nats
import pytest

from running.mesh import eventually
from running.promises import promise
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.confined import is_supported
from towpath.contracts.commands import DeployJob, ListJobs, MigrateJob, StrategyName, UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec, JobState
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.streams.pages import read_after

STEP_S = 120.0

TOPIC, OUTPUT = "site/readings", "stamped"

CODE = """
from pyspark.sql import functions as F

def opened(files):
    found = []
    for path in files:
        try:
            open(path).close()
            found.append(path)
        except OSError:
            pass
    return " ".join(found)

def stamp(events, parameters):
    from own_package.constants import SECRETS, VERSION
    double = F.udf(lambda value: 2 * value, "long")
    opens = F.udf(lambda value: opened(SECRETS), "string")
    stamped = events.withColumn("opened", F.concat(F.lit(opened(SECRETS)), opens("v")))
    return stamped.withColumn("v", double("v")).withColumn("version", F.lit(VERSION))
"""

pytestmark = pytest.mark.timeout(600)


@dataclass
class Trial:
    """A mesh, a user's code, and the results of the events so far."""

    home: Home
    state: MeshState
    code: Path
    sent: int = 0

    def write_code(self, version: int, *, source: str = CODE) -> None:
        package = self.code / "own_package"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text("")
        secrets = [*self.home.root.rglob("*.conf"), self.home.state, f"/proc/{self.pid('jfk-agent')}/environ"]
        constants = f"VERSION, SECRETS = {version}, {[*map(str, secrets)]}\n"
        (package / "constants.py").write_text(constants)
        (package / "job.py").write_text(source)

    def spec(self, name: str = "stamped", **operator: Any) -> JobSpec:
        return JobSpec.model_validate(
            {
                "name": name,
                "site": "jfk",
                "inputs": [{"site": "jfk", "topic": TOPIC}],
                "output": {"topic": OUTPUT if name == "stamped" else name},
                "operator": {
                    "kind": "python",
                    "fields": {"v": "long"},
                    "entry": "own_package.job:stamp",
                    "artefact": "code",
                    **operator,
                },
                "trigger_s": 0.2,
            }
        )

    def shelf(self, site: str) -> list[Path]:
        return sorted(self.home.site_artefacts(site).glob("*.zip"))

    def pid(self, name: str) -> int:
        (found,) = [p.pid for p in lifecycle.processes(self.home) if p.name == name and p.running]
        assert found is not None
        return found

    @asynccontextmanager
    async def at_jfk(self) -> AsyncIterator[nats.NATS]:
        access = self.state.sites["jfk"]
        login = access.login("agent")
        connection = await nats.connect(
            access.nats_url,
            user=login.user,
            password=login.password,
            inbox_prefix=f"_INBOX.{login.user}",
        )
        try:
            yield connection
        finally:
            await connection.close()

    async def send(self, count: int = 3) -> None:
        """Send device events with the next numbers."""
        access = self.state.sites["jfk"]
        async with aiomqtt.Client(
            access.mqtt_host,
            access.mqtt_port,
            username=access.device.user,
            password=access.device.password,
            timeout=STEP_S,
        ) as device:
            for _ in range(count):
                self.sent += 1
                await device.publish(TOPIC, json.dumps({"v": self.sent}), qos=1)

    async def results(self) -> list[dict[str, Any]]:
        async with self.at_jfk() as connection:
            return [json.loads(m.body) for m in await read_after(connection, "jfk", f"OUT_{OUTPUT}", 0)]

    async def through(self) -> list[dict[str, Any]]:
        """Return the results once every event has exactly one."""
        found: list[dict[str, Any]] = []

        async def complete() -> bool:
            nonlocal found
            found = await self.results()
            return len(found) >= self.sent

        await eventually(complete, STEP_S)
        assert [r["values"]["v"] for r in found] == [2 * n for n in range(1, self.sent + 1)]
        return found


@pytest.fixture(scope="module")
def trial(shared_mesh: WholeMesh) -> Iterator[Trial]:
    (shared_mesh.code / "code").mkdir()
    trial = Trial(shared_mesh.at, shared_mesh.state, shared_mesh.code / "code")
    yield trial
    if shared_mesh.job("stamped"):
        shared_mesh.remove("stamped")


@pytest.fixture
async def bus(trial: Trial) -> AsyncIterator[Bus]:
    async with open_bus(trial.home) as connected:
        yield connected


async def refusal(asking: Awaitable[Any]) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        await asking
    return refused.value


async def job_is(bus: Bus, name: str, condition: Callable[[Any], object]) -> None:
    async def holds() -> object:
        jobs = (await bus.request(ListJobs(), deadline_s=30)).jobs
        return any(job.spec.name == name and condition(job) for job in jobs)

    await eventually(holds, STEP_S)


@promise("user code")
async def test_job_when_deployed_from_a_directory_then_its_site_alone_has_the_code(
    trial: Trial, bus: Bus
) -> None:
    trial.write_code(1)
    await bus.request(DeployJob(spec=trial.spec()), deadline_s=STEP_S)
    await trial.send()
    assert {r["values"]["version"] for r in await trial.through()} == {1}
    if is_supported():
        assert {r["values"]["opened"] for r in await trial.through()} == {""}
    assert (len(trial.shelf("jfk")), len(trial.shelf("cloud"))) == (1, 0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('bad thing')\n", "ValueError: bad thing (line 1 of own_package/job.py"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("while True: pass\n", "does not import within"),
        ("x = bytearray(10**12)\n", "MemoryError"),
    ],
    ids=["raises", "exits", "hangs", "takes memory"],
)
async def test_code_when_it_is_bad_then_its_deploy_is_refused_and_the_engine_does_not_notice(
    trial: Trial, bus: Bus, code: str, said: str
) -> None:
    trial.write_code(1, source=code)
    engine = trial.pid("jfk-engine")
    error = await refusal(bus.request(DeployJob(spec=trial.spec("bad")), deadline_s=STEP_S))
    assert said in error.detail.message
    await trial.send()
    await trial.through()
    assert trial.pid("jfk-engine") == engine


async def test_code_when_it_lies_outside_the_root_then_the_refusal_names_the_root(
    trial: Trial, bus: Bus, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(CODE)
    spec = trial.spec("outside", artefact=str(tmp_path), entry="job:stamp")
    detail = (await refusal(bus.request(DeployJob(spec=spec), deadline_s=STEP_S))).detail
    assert (detail.code, detail.field) == (ErrorCode.NOT_ALLOWED, "operator.artefact")
    assert str(trial.code.parent) in str(detail.allowed)


async def test_job_when_it_moves_and_the_target_is_killed_meanwhile_then_it_runs_there_with_its_code(
    trial: Trial, bus: Bus
) -> None:
    command = MigrateJob(job="stamped", to="cloud", strategy=StrategyName.GENERAL)
    moving = asyncio.create_task(bus.request(command, deadline_s=2 * STEP_S, attempt_s=60))

    async def code_there() -> bool:
        return bool(trial.shelf("cloud"))

    await eventually(code_there, STEP_S)
    os.kill(trial.pid("cloud-agent"), signal.SIGKILL)
    await trial.send()
    await moving
    await trial.send()
    results = await trial.through()
    assert results[-1]["site"] == "cloud"
    assert {r["values"]["version"] for r in results} == {1}
    (brought,) = trial.shelf("cloud")
    assert brought.read_bytes() == (trial.home.site_artefacts("jfk") / brought.name).read_bytes()


async def test_code_when_it_changed_under_the_same_path_then_an_update_takes_the_new(
    trial: Trial, bus: Bus
) -> None:
    trial.write_code(2)
    error = await refusal(bus.request(UpdateJob(spec=trial.spec()), deadline_s=STEP_S))
    assert error.detail.code is ErrorCode.NOT_ALLOWED  # Its state is of the old code.
    before = trial.sent
    await bus.request(UpdateJob(spec=trial.spec(), drop_state=True), deadline_s=STEP_S)
    await trial.send()
    versions = [r["values"]["version"] for r in await trial.through()]
    assert versions == [1] * before + [2] * (trial.sent - before)
    assert len(trial.shelf("cloud")) == 2


async def test_copy_of_a_site_when_it_is_damaged_then_it_is_fetched_again_before_the_job_starts_again(
    trial: Trial, bus: Bus
) -> None:
    for path in trial.shelf("cloud"):
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:50])
    os.kill(trial.pid("cloud-engine"), signal.SIGKILL)
    os.kill(trial.pid("cloud-agent"), signal.SIGKILL)
    await trial.send()
    assert (await trial.through())[-1]["values"]["version"] == 2
    await job_is(bus, "stamped", lambda job: job.state is JobState.RUNNING and job.site == "cloud")
    assert max(path.stat().st_size for path in trial.shelf("cloud")) > 50
