"""A machine with nothing but its bundle joins a mesh, takes a job over, gets other keys, and leaves."""

from __future__ import annotations

from pathlib import Path

import nats.errors
import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S, CommandLine
from running.flow import PER_SECOND, flowing, job, move, numbers
from running.raw_leaf import raw_leaf
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.bus.connecting import Login, connect_once
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, RemoveJob, StrategyName
from towpath.contracts.errors import TowpathError
from towpath.contracts.events import SecurityRefused
from towpath.contracts.job import JobSpec
from towpath.contracts.joining import Bundle
from towpath.mesh.home import Home
from towpath.mesh.joining import join_command, joining_mesh, proof_of
from towpath.mesh.state import MeshState
from towpath.processes import find
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

OUTPUT = "OUT_afloat"


async def through(bus: Bus, sent: int, output: str = OUTPUT) -> bool:
    try:
        return await last_serial(bus.connection, "jfk", output) >= sent
    except (TowpathError, nats.errors.Error, TimeoutError):
        return False  # The hub restarts with other keys.


async def replace_keys(mesh: WholeMesh, machine: CommandLine, bundle: Path) -> None:
    """Replace the keys of a machine's site while its job runs. The old ones are refused then, by the hub."""
    home = Home(machine.home)
    old, engine = MeshState.load(home), find(home.run, "barge-engine")

    async def is_refused() -> bool:
        async with raw_leaf(old, "barge") as leaf:
            return leaf.refusal == "'Authorization Violation'"

    mesh.succeed("site", "rotate-keys", "barge", "--into", str(bundle))
    machine.succeed("join", str(bundle))

    await eventually(is_refused)
    assert engine is not None
    assert find(home.run, "barge-engine") == engine, "its jobs were stopped"


async def refuse_as_another_site(mesh: WholeMesh, bundle: Path, ship: Path) -> None:
    """Invite a ship, and try to join as it with the invitation of another site. That is refused, and told."""
    mesh.succeed("site", "add", "ship", "--hub", "127.0.0.1", "--into", str(ship))
    guest, stranger = (Bundle.from_json(file.read_bytes()) for file in (bundle, ship))
    login, told = guest.invitation, list[SecurityRefused]()
    own = join_command(joining_mesh(stranger).site("ship"))
    forged = own.model_copy(update={"proof": proof_of(login)})

    async def heard(event: SecurityRefused) -> None:
        told.append(event)

    async with open_bus(mesh.at) as bus:
        await bus.subscribe(SecurityRefused, heard)
        async with await Bus.connect(mesh.state.hub_url, login.user, login.password, name="thief") as thief:
            with pytest.raises(TowpathError, match="not the invitation of this site"):
                await thief.request(forged, deadline_s=STEP_S)
        await eventually(lambda: any(event.kind == "JoinSite" for event in told))
    mesh.succeed("site", "remove", "ship")


async def test_keys_when_they_are_replaced_while_a_job_runs_then_it_goes_on(shared_mesh: WholeMesh) -> None:
    async with open_bus(shared_mesh.at) as bus:
        spec = JobSpec.model_validate(job("steady", "site/steady", "steady", None))
        await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)
        async with flowing(shared_mesh.state, "site/steady") as load:
            await eventually(lambda: through(bus, PER_SECOND, "OUT_steady"))
            old, before = shared_mesh.state, shared_mesh.pids()
            shared_mesh.succeed("site", "rotate-keys", "jfk")
            moment = load.sent + 2 * PER_SECOND
            await eventually(lambda: through(bus, moment, "OUT_steady"))
            after = shared_mesh.pids()
        await eventually(lambda: through(bus, load.sent, "OUT_steady"))
        passed_on = await numbers(bus, "OUT_steady")
        await bus.request(RemoveJob(job="steady", purge=True), deadline_s=STEP_S)

    assert sorted(passed_on) == [*range(load.sent)], "the device stayed connected"
    kept = ("jfk-agent", "jfk-engine", "jfk-nats", "jfk-storage")
    assert {name: after.get(name) for name in kept} == {name: before.get(name) for name in kept}
    login = old.site("jfk").login("agent")
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        await connect_once(Login(old.site("jfk").nats_url, login.user, login.password), "thief")


async def test_job_when_it_moves_to_a_machine_that_joined_and_back_then_each_result_comes_once(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    bundle = tmp_path / "barge.bundle"
    shared_mesh.succeed("site", "add", "barge", "--hub", "127.0.0.1", "--into", str(bundle))
    machine = CommandLine(tmp_path / "machine")
    try:
        machine.succeed("join", str(bundle))
        again = machine.run("join", str(bundle))
        await refuse_as_another_site(shared_mesh, bundle, tmp_path / "ship.bundle")
        async with open_bus(shared_mesh.at) as bus:
            spec = JobSpec.model_validate(job("afloat", "site/afloat", "afloat", None))
            await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)
            async with flowing(shared_mesh.state, "site/afloat") as load:
                await eventually(lambda: through(bus, PER_SECOND))
                for site in ("barge", "jfk"):
                    await move(bus, "afloat", site, StrategyName.HANDOVER)
                    moment = load.sent + PER_SECOND
                    await eventually(lambda moment=moment: through(bus, moment))
                    if site == "barge":
                        await replace_keys(shared_mesh, machine, bundle)
                        await eventually(lambda moment=moment: through(bus, moment + 2 * PER_SECOND))
            await eventually(lambda: through(bus, load.sent))
            passed_on = await numbers(bus, OUTPUT)
            await bus.request(RemoveJob(job="afloat", purge=True), deadline_s=STEP_S)
        machine.succeed("leave")
        shared_mesh.succeed("site", "remove", "barge")
    finally:
        machine.run("down")

    assert again.returncode == 0, "a repetition goes on where it stands"
    assert sorted(passed_on) == [*range(load.sent)]
    refused = CommandLine(tmp_path / "thief").run("join", str(bundle), "--within", "5")
    assert refused.returncode != 0
