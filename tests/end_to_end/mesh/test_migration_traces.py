"""A migration is one trace over all processes. No span is missing or loose, even if processes are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from running.edges import EDGES, asked_by, crossings
from running.otlp_receiver import Received, otlp_receiver
from running.places import EXAMPLES
from running.waiting import until
from towpath.cli.connection import open_bus
from towpath.contracts.commands import StrategyName
from towpath.contracts.events import StepDone
from towpath.contracts.traces import Span, Trace
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.processes import find
from towpath.protocols.spans import operation_span
from towpath.telemetry.trace_tree import is_unfinished, orphans

pytestmark = pytest.mark.timeout(700)

JOB = "hourly-jfk"
COMMAND_S = 320.0
"""Longer than any command's own deadline, so that a failing test shows its message."""


@dataclass
class Traced:
    """A mesh whose processes also send their spans to a receiver of OTLP."""

    home: Home
    received: Received

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "towpath.cli", "--home", str(self.home.root), *arguments]
        environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.received.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "300",
        }
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def json(self, *arguments: str) -> Any:
        return self.ended(self.start(*arguments, "--json"))

    def ended(self, process: subprocess.Popen[str]) -> Any:
        try:
            out, err = process.communicate(timeout=COMMAND_S)
        finally:
            process.kill()
        assert process.returncode == 0, err
        return json.loads(out)

    def trace(self, about: str) -> Trace:
        return Trace.model_validate(self.json("trace", about))

    def migrate(self, to: str, strategy: StrategyName) -> str:
        (answer,) = self.json("migrate", JOB, "--to", to, "--strategy", strategy)
        return answer["operation"]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """Run two sites whose window job has events to work on all the time."""
    home = Home(tmp_path_factory.mktemp("mesh"))
    with otlp_receiver() as received:
        mesh = Traced(home, received)
        replaying: subprocess.Popen[str] | None = None
        try:
            mesh.json("up", "--sites", "jfk,cloud", "--within", "300")
            for name in ("clean", "window"):
                mesh.json("deploy", str(EXAMPLES / f"{name}.yaml"))
            replaying = mesh.start("replay", "--site", "jfk", "--airport", "JFK", "--rate", "50")
            yield mesh
        finally:
            if replaying is not None:
                replaying.kill()
                replaying.communicate()
            lifecycle.down(home)


def declared(strategy: StrategyName) -> set[tuple[str, str]]:
    return {*EDGES[strategy], asked_by("cli")}


def assert_whole(trace: Trace, strategy: StrategyName) -> None:
    """Check that every service of the migration is there, and that no span lacks its parent."""
    assert trace.unreached == {}
    assert declared(strategy) <= crossings(trace.spans)
    assert orphans(trace.spans) == []
    assert [span.name for span in trace.spans if span.parent is None] == ["towpath migrate"]


def batch_sites(trace: Trace) -> set[str]:
    """Return the sites whose micro-batches the trace shows."""
    return {span.site for span in trace.spans if span.service == "engine" and span.name.startswith("batch ")}


def operation_of(spans: list[Span], operation: str) -> Span:
    (found,) = [span for span in spans if span.span == operation_span(operation)]
    return found


def test_migration_when_it_is_a_handover_then_its_trace_is_whole_here_and_at_the_receiver(
    traced: Traced,
) -> None:
    operation = traced.migrate("cloud", StrategyName.HANDOVER)
    # The first micro-batch of the target's run. The source's is there only if the halt interrupted it.
    until(lambda: "cloud" in batch_sites(traced.trace(operation)))
    trace = traced.trace(operation)
    assert_whole(trace, StrategyName.HANDOVER)
    assert operation_of(trace.spans, operation).error is None
    received = traced.received
    until(lambda: declared(StrategyName.HANDOVER) <= crossings(received.trace(trace.trace)))
    until(lambda: not orphans(received.trace(trace.trace)))
    listed = {one["trace"]: one for one in traced.json("traces")["traces"]}
    assert (listed[trace.trace]["operation"], listed[trace.trace]["name"]) == (operation, "towpath migrate")


def test_migration_when_it_is_general_then_its_trace_is_whole_here_and_at_the_receiver(
    traced: Traced,
) -> None:
    operation = traced.migrate("jfk", StrategyName.GENERAL)
    trace = traced.trace(operation)
    assert_whole(trace, StrategyName.GENERAL)
    received = traced.received
    until(lambda: declared(StrategyName.GENERAL) <= crossings(received.trace(trace.trace)))


async def killed_in_migration(traced: Traced, step: str) -> tuple[subprocess.Popen[str], str]:
    """Begin a migration, and kill the coordinator as soon as a step has begun: polling would be too late."""
    reached: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def look(done: StepDone) -> None:
        if done.step == step and not reached.done():
            reached.set_result(done.operation)

    async with open_bus(traced.home) as bus:
        await bus.subscribe(StepDone, look)
        await bus.connection.flush()
        coordinator = find(traced.home.run, "coordinator")
        assert coordinator is not None
        migrating = traced.start("migrate", JOB, "--to", "cloud", "--strategy", "handover", "--json")
        operation = await asyncio.wait_for(reached, COMMAND_S)
        os.kill(coordinator.pid, signal.SIGKILL)
    return migrating, operation


def test_migration_when_the_coordinator_is_killed_in_it_then_no_span_is_without_its_parent(
    traced: Traced,
) -> None:
    migrating, operation = asyncio.run(killed_in_migration(traced, "launch-retrieve"))
    (answer,) = traced.ended(migrating)
    assert (answer["operation"], answer["state"]) == (operation, "completed")
    trace = traced.trace(operation)
    assert_whole(trace, StrategyName.HANDOVER)
    assert not is_unfinished(operation_of(trace.spans, operation))
    killed = [span for span in trace.spans if span.name == "serve migrate" and is_unfinished(span)]
    assert killed
