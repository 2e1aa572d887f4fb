"""Two coordinators: one leads, the other is a spare. Agents act, but run no Spark."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from running.coordinator import Trial, spec
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus
from towpath.bus.terms import later_term
from towpath.contracts.commands import DeployJob, OperationState
from towpath.contracts.coordinators import Coordinators, ShowCoordinators
from towpath.contracts.errors import TowpathError
from towpath.contracts.site_commands import ReportProgress

pytestmark = pytest.mark.asyncio(loop_scope="session")

SPARE = "coordinator-2"


@pytest_asyncio.fixture(loop_scope="session")
async def spared(trial: Trial) -> AsyncIterator[Trial]:
    """A coordinator that leads, and a spare."""
    state, home = trial.running.state, trial.running.home
    spec = state.spec.model_copy(update={"coordinators": 2})
    state.model_copy(update={"spec": spec}).save(home)
    spare = await trial.launch_coordinator(2)
    try:
        await eventually(lambda: spares(trial, [SPARE]))
        yield trial
    finally:
        spare.kill()
        await spare.wait()
        state.save(home)
        await trial.end_coordinator(signal.SIGKILL)


async def shown(trial: Trial) -> Coordinators:
    return await trial.client.request(ShowCoordinators(), deadline_s=WITHIN_S, attempt_s=1)


async def spares(trial: Trial, names: list[str]) -> bool:
    return (await shown(trial)).spares == names


async def leads(trial: Trial, name: str) -> bool:
    return (await shown(trial)).leader == name


@promise("spare coordinator")
async def test_migration_when_its_coordinator_is_killed_then_the_spare_finishes_it(spared: Trial) -> None:
    before = await shown(spared)
    await spared.ask(DeployJob(spec=spec("counts")))
    _, asking = await spared.migrate_in_background("counts")

    await spared.end_coordinator(signal.SIGKILL)
    await eventually(lambda: leads(spared, SPARE))
    spared.let_go("pause-transfer", "counts")

    assert (await asking).state is OperationState.COMPLETED
    assert spared.owners("counts") == ["lga"]
    spared.check_nothing_lost("counts")
    assert (await shown(spared)).term > before.term


async def test_coordinator_when_it_wakes_and_a_spare_leads_then_ends_and_no_site_obeys_it(
    spared: Trial,
) -> None:
    await spared.ask(DeployJob(spec=spec("counts")))
    former, process = await shown(spared), spared.process
    assert process is not None

    process.send_signal(signal.SIGSTOP)
    await eventually(lambda: leads(spared, SPARE))
    await spared.ask(DeployJob(spec=spec("others")))
    async with spared.running.coordinator() as connection:
        zombie = Bus(connection)
        zombie.term = former.term
        with pytest.raises(TowpathError) as refused:
            await zombie.request(
                ReportProgress(site="jfk", operation="m1", job="counts"), deadline_s=WITHIN_S
            )
    process.send_signal(signal.SIGCONT)

    assert later_term(refused.value) == (await shown(spared)).term
    assert await process.wait() == 0
    await eventually(lambda: leads(spared, SPARE))


async def test_first_coordinator_when_it_restarts_beside_a_spare_that_leads_then_becomes_the_spare(
    spared: Trial,
) -> None:
    await spared.end_coordinator(signal.SIGKILL)
    await eventually(lambda: leads(spared, SPARE))

    await spared.start_coordinator()

    await eventually(lambda: spares(spared, ["coordinator"]))
    assert await leads(spared, SPARE)
