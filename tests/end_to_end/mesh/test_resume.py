"""A job goes on with its state after its input lost what it had still to read."""

from __future__ import annotations

import nats
import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import KEYS, WINDOW, flowing, job, stored, windows
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, JobView, ListJobs
from towpath.contracts.job import JobSpec, JobState
from towpath.contracts.site import Retention
from towpath.streams.pages import last_serial
from towpath.streams.streams import SiteStreams

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)


async def begin_again(mesh: WholeMesh, job: JobView) -> None:
    """Lose the job's output stream at jfk. The next one numbers results from 1 again."""
    access = mesh.state.site("jfk")
    login = access.login("agent")
    connection = await nats.connect(
        access.nats_url, user=login.user, password=login.password, inbox_prefix=f"_INBOX.{login.user}"
    )
    try:
        streams = SiteStreams(connection, "jfk", Retention())
        await streams.delete(job.output.stream)
        await streams.outputs.set_epoch(job.spec.name, job.epoch, job.output, owner=job.site)
    finally:
        await connection.close()


async def test_windows_when_their_input_began_again_then_go_on_when_they_are_told_where(
    shared_mesh: WholeMesh,
) -> None:
    specs = [
        job("fed", "site/resumed", "resumed/fed"),
        job("also", "site/resumed", "resumed/also"),
        job("resumed", "resumed/fed", "resumed/windows", WINDOW, site="cloud"),
    ]
    specs[-1]["inputs"].append({"site": "jfk", "topic": "resumed/also"})
    async with open_bus(shared_mesh.at) as bus:
        for spec in specs:
            await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)

        async def view(name: str) -> JobView:
            return (await bus.request(ListJobs(), deadline_s=STEP_S)).named(name, field="name")

        async def results() -> int:
            return await last_serial(bus.connection, "jfk", "OUT_resumed")

        async def publishes() -> bool:
            return await results() > 3 * KEYS

        async with flowing(shared_mesh.state, "site/resumed"):
            await eventually(publishes)
            first = ("resume", "resumed", "--input", "jfk/resumed/fed")
            refused = shared_mesh.run(*first, "--from", "0")
            assert refused.returncode == 2
            assert "going back would count events twice" in refused.stderr

            for name in ("fed", "also"):
                await begin_again(shared_mesh, await view(name))

            async def has_stopped() -> bool:
                status = (await view("resumed")).status
                return status is not None and "EventsRenumbered: " in (status.error or "")

            await eventually(has_stopped)
            before = await results()
            refused = shared_mesh.run(*first, "--from", "earliest")
            assert refused.returncode == 2
            assert "jfk/resumed/also" in refused.stderr
            shared_mesh.succeed(*first, "--input", "jfk/resumed/also", "--from", "earliest")

            async def publishes_again() -> bool:
                return await results() > before + 3 * KEYS

            await eventually(publishes_again)
        assert (await view("resumed")).state is JobState.RUNNING
        assert set(windows(await stored(bus, "OUT_resumed")).values()) == {1}
    shared_mesh.remove("resumed", "fed", "also")
