"""A migration that holds goes on when someone says so or its time is over, whatever coordinators die."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from operation_trial import JOB, Trial, operation

from running.waiting import WITHIN_S
from towpath.contracts.commands import OperationState
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.coordinator.migrations.requests import check_finishable
from towpath.protocols.record import OperationRecord
from towpath.protocols.requests import ABORTED, Requests
from towpath.protocols.runner import Runner


def twin(hold_s: float | None) -> Trial:
    return Trial(operation("twin").model_copy(update={"hold_s": hold_s}))


def run(trial: Trial, requests: Requests) -> asyncio.Task[OperationRecord]:
    runner = Runner(trial.ledger, trial.send, trial.publish, trial.clock)
    return asyncio.create_task(runner.run(trial.record.id, requests))


async def held(trial: Trial) -> tuple[asyncio.Task[OperationRecord], Requests]:
    """Run a migration until it holds."""
    requests = Requests()
    running = run(trial, requests)
    async with asyncio.timeout(WITHIN_S):
        await requests.holding.wait()
    return running, requests


async def test_twin_when_no_one_ends_it_then_both_publish_and_the_source_owns_the_job() -> None:
    trial = twin(None)
    running, _ = await held(trial)
    trial.mesh.work(5)
    assert sorted(trial.mesh.owners(JOB)) == ["cloud", "jfk"]
    assert trial.ledger.jobs[JOB].site == "jfk"
    assert not running.done()
    running.cancel()


async def test_twin_when_it_is_finished_then_the_target_goes_on_alone() -> None:
    trial = twin(None)
    running, requests = await held(trial)
    requests.finish.set()
    record = await running
    assert record.state is OperationState.COMPLETED
    assert trial.ledger.jobs[JOB].site == "cloud"
    trial.check_end(record)


async def test_twin_when_it_is_aborted_then_the_source_goes_on_alone() -> None:
    trial = twin(None)
    running, requests = await held(trial)
    requests.abort.set()
    record = await running
    assert (record.state, record.note) == (OperationState.ROLLED_BACK, f"run-both: {ABORTED}")
    assert trial.ledger.jobs[JOB].site == "jfk"
    trial.check_end(record)


async def test_twin_when_its_time_is_over_then_the_target_goes_on_and_the_move_cost_no_such_time() -> None:
    trial = twin(300.0)
    running, _ = await held(trial)
    running.cancel()
    trial.clock.elapsed_s += 301.0

    record = await trial.finish()

    assert record.state is OperationState.COMPLETED
    assert record.figures is not None
    assert record.figures.total_s < 10.0
    trial.check_end(record)


async def test_twin_when_the_coordinator_dies_while_it_holds_then_the_next_one_holds_on() -> None:
    trial = twin(None)
    first, _ = await held(trial)
    first.cancel()
    sent = len(trial.sent)

    second, requests = await held(trial)

    assert len(trial.sent) == sent, "nothing is asked again"
    requests.finish.set()
    assert (await second).state is OperationState.COMPLETED


async def test_twin_when_it_is_to_finish_before_it_holds_then_does_not_stop_there() -> None:
    trial, requests = twin(None), Requests()
    requests.finish.set()
    async with asyncio.timeout(WITHIN_S):
        assert (await run(trial, requests)).state is OperationState.COMPLETED


@pytest.mark.parametrize(
    ("name", "state"),
    [("handover", "running"), ("update", "running"), ("twin", "rolled_back"), ("twin", "needs_operator")],
)
def test_finish_when_the_operation_does_not_hold_then_is_refused(name: str, state: Any) -> None:
    record = operation(name).model_copy(update={"state": OperationState(state)})
    with pytest.raises(TowpathError) as caught:
        check_finishable(record)
    assert caught.value.detail.code is ErrorCode.NOT_ALLOWED
