"""Deployment plans on cloud nodes: a Spark cluster of 5 to 30 nodes is installed, updated and uninstalled.

The course is that of Figure 3.11 of the thesis: from the client's command to the last answer. Each node is a
device of the plan, and has one worker. The first has the master and the job, too. All nodes are processes of
this machine, so the number of nodes ends where its memory does.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Value, rounded
from measured_mesh import MeasuredMesh
from plain_broker import Broker, plain_broker
from plan_pictures import draw_boxes
from plans import PHASES, SITE, Gateways, rolled_out, running_gateways, served

from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.plan import DeploymentPlan
from towpath.contracts.plan_commands import ApplyPlan, UninstallPlan, UpdatePlan
from towpath.contracts.plan_rollout import DeviceState, RolloutState

PACKAGE = Path(__file__).parents[2] / "examples/gateways/timeseries-forecast"
APPLICATION = "forecast"

COUNTS = {
    Scale.QUICK: (2,),
    Scale.DEFAULT: (5, 10, 15, 20, 25, 30),
    Scale.FULL: (5, 10, 15, 20, 25, 30),
}
RUNS = {Scale.QUICK: 1, Scale.DEFAULT: 1, Scale.FULL: 3}

NODE_MB = 700.0
"""Memory of a node, two JVMs and a gateway, until the first cluster has told how much it is here."""

RESERVE_MB = 3000.0
"""Memory that stays free, for what else the machine does."""

PHASE_S = 1200.0
"""Longest time of a phase: two cores start 60 JVMs, and each takes several seconds of a core."""

LOOK_EVERY_S = 0.5
ANSWERED, AT_WORK = "last answer", "all executors at work"

THEIRS = (
    "the thesis: a cluster on 30 virtual machines installed in 10.93 s (Figure 3.11; the text has no other "
    "figure). Each machine had cores of its own, with Docker and cached images. Here all JVMs share those "
    "of one machine. The thesis updates a cluster by launching it again. Here an update of the batch's size "
    "restarts the job alone"
)


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure clusters of more and more nodes, as far as memory allows."""
    assert mesh is not None
    measured.notes.append(THEIRS)
    boxes: dict[str, dict[int, dict[str, list[float]]]] = {phase: {} for phase in PHASES}
    measured.raw["seconds"] = boxes
    node_mb = NODE_MB
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="towpath-bench-clusters-")))
        package = await stack.enter_async_context(served(directory, PACKAGE))
        # A site lets no device read what others publish under `site/`.
        sensors = await stack.enter_async_context(plain_broker())
        for count in COUNTS[scale]:
            free_mb = psutil.virtual_memory().available / 1e6
            if count * node_mb > free_mb - RESERVE_MB:
                measured.notes.append(
                    f"memory ends here: {count} nodes need {count * node_mb / 1000:.1f} GB of the "
                    f"{free_mb / 1000:.1f} GB that are free, of which {RESERVE_MB / 1000:.0f} GB must stay so"
                )
                return
            cluster = Cluster(mesh, directory, package, sensors, count)
            seconds = await cluster.rounds(RUNS[scale], say)
            for phase in PHASES:
                boxes[phase][count] = seconds[phase]
                draw = partial(draw_boxes, title=f"{phase}, s", by_count=boxes[phase], unit="nodes")
                measured.pictures[f"cluster-{phase}"] = draw
            node_mb = cluster.node_mb
            measured.cases.append(_case(count, seconds, node_mb))


def _case(count: int, seconds: dict[str, dict[str, list[float]]], node_mb: float) -> Case:
    figures: dict[str, Value] = {"runs": len(seconds["install"][ANSWERED])}
    for phase in PHASES:
        for end, taken in seconds[phase].items():
            figures[f"{phase}, {end}, s"] = rounded(median(taken), 1)
            figures[f"{phase}, {end}, range, s"] = f"{min(taken):.1f}–{max(taken):.1f}"
    figures["MB per node"] = round(node_mb)
    return Case(f"cluster of {count} nodes", figures)


class Cluster:
    """Nodes, and the plan that makes them a cluster."""

    def __init__(
        self,
        mesh: MeasuredMesh,
        directory: Path,
        package: dict[str, Any],
        sensors: Broker,
        count: int,
    ) -> None:
        self._mesh = mesh
        self._directory = directory
        self._package = package
        self._sensors = sensors
        self._count = count
        self._plan = ""
        self.node_mb = 0.0
        """Memory of a node with its part of the cluster, on average."""

    async def rounds(self, runs: int, say: Say) -> dict[str, dict[str, list[float]]]:
        """Return the seconds of each phase, by what they lead to."""
        seconds: dict[str, dict[str, list[float]]] = {phase: {ANSWERED: [], AT_WORK: []} for phase in PHASES}
        del seconds["uninstall"][AT_WORK]
        say(f"{self._count} nodes start")
        running = running_gateways(self._mesh, self._directory, self._count, "vm", self._sensors)
        async with running as nodes:
            for number in range(runs):
                say(f"{self._count} nodes, run {number + 1} of {runs}")
                await self._round(seconds, nodes, say)
            if left := nodes.left_behind():
                raise RuntimeError(f"{left} packages or processes are left behind")
        return seconds

    async def _round(self, seconds: dict[str, dict[str, list[float]]], nodes: Gateways, say: Say) -> None:
        self._plan = self._mesh.fresh_name("cluster")
        changed = UpdatePlan(plan=self._plan, operation=APPLICATION, arguments={"rdd.batchsize": 2})
        before = ""
        for phase, command in (("install", self._apply()), ("update", changed)):
            began = time.monotonic()
            seconds[phase][ANSWERED].append(await self._rolled_out(command, DeviceState.RUNNING))
            say(f"{phase}: last answer after {seconds[phase][ANSWERED][-1]:.1f} s")
            before = await self._at_work(before, nodes)
            seconds[phase][AT_WORK].append(time.monotonic() - began)
        self.node_mb = max(self.node_mb, nodes.memory_with_applications_mb())
        removed = UninstallPlan(plan=self._plan)
        seconds["uninstall"][ANSWERED].append(await self._rolled_out(removed, DeviceState.REMOVED))

    async def _rolled_out(self, command: Any, state: DeviceState) -> float:
        view, took = await rolled_out(self._mesh, self._plan, command, within_s=PHASE_S)
        if (view.state, view.counts[state]) != (RolloutState.COMPLETED, self._count):
            notes = "; ".join(sorted({each.note for each in view.devices if each.note}))
            raise RuntimeError(f"{self._plan} ended as {view.state}, {view.counts}: {view.note} {notes}")
        return took

    async def _at_work(self, before: str, nodes: Gateways) -> str:
        """Wait until a job other than before has an executor on each node. Return its name at the master.

        The master's count of used cores says less: it has granted them before an executor's JVM runs.
        """
        async with asyncio.timeout(PHASE_S):
            while True:
                job, executors = await asyncio.to_thread(_registered, nodes.directory)
                if job != before and executors == self._count:
                    return job
                await asyncio.sleep(LOOK_EVERY_S)

    def _apply(self) -> ApplyPlan:
        arguments = {
            "spark.workers": self._count,
            "spark.master.port": _free_port(),
            "spark.directory": str(self._directory / "shared"),
            "spark.sql.shuffle.partitions": 2,
            "spark.ready.seconds": int(PHASE_S),
            "rdd.batchsize": 1,
        }
        names = _names(self._count)
        operation = {
            "id": APPLICATION,
            "executes": {"kind": "install", "package": self._package, "arguments": arguments},
            "placement": {"devices": names},
        }
        rollout = {"waves": ["100%"], "at_once": self._count, "timeout_s": PHASE_S}
        devices = [{"id": name, "address": "127.0.0.1", "place": {"site": SITE.name}} for name in names]
        described = {"plan": self._plan, "operations": [operation], "rollout": rollout}
        return ApplyPlan(
            plan=DeploymentPlan.model_validate(described),
            catalogue=DeviceCatalogue.model_validate({"devices": devices}),
        )


def _registered(directory: Path) -> tuple[str, int]:
    """Return the newest job under the nodes' directory, and how many workers have an executor in it."""
    logs = [*directory.glob("*/states/*.d/scratch/worker-*/app-*/*/stderr")]
    job = max((log.parents[1].name for log in logs), default="")
    newest = [log for log in logs if log.parents[1].name == job]
    accepted = {log.parents[2] for log in newest if "Successfully registered with driver" in log.read_text()}
    return job, len(accepted)


def _names(count: int) -> list[str]:
    return [f"vm-{number:03d}" for number in range(1, count + 1)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


BENCHMARK = Benchmark(
    "plan-clusters",
    "deployment plans on Spark clusters of up to 30 nodes: install, update, uninstall",
    (SITE,),
    measure,
    on_request=True,
)
