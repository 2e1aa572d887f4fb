"""A pipeline's past: shown as far as an answer can hold it, with the end of an apply, and restored."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from coordinator_trial import Played, apply_record, job, pipeline, planned

from running.waiting import WITHIN_S
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import Event
from towpath.contracts.pipeline import Action, ApplyState, ChangeState, PipelineVersion
from towpath.contracts.pipeline_commands import ApplyEnded, RollbackPipeline, ShowPipelineHistory
from towpath.coordinator.pipelines import commands as pipelines
from towpath.coordinator.pipelines.applies import Applies, ended_record, pipeline_after
from towpath.coordinator.pipelines.commands import PipelineCommands
from towpath.coordinator.pipelines.records import ApplyRecord, ChangeRecord, PipelineRecord


class Kept(Played):
    """A pipeline of three versions."""

    async def versions(self, name: str) -> dict[int, PipelineVersion]:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return {n: PipelineVersion(version=n, at=at, spec=pipeline(job("a"))) for n in (1, 2, 3)}


async def told(**question: Any) -> tuple[list[int], int | None]:
    kept = cast("Any", Kept())
    answer = await PipelineCommands(Kept().situation, kept, kept).show_history(
        ShowPipelineHistory(pipeline="delays", **question)
    )
    return [version.version for version in answer.versions], answer.older


async def test_history_when_it_fits_into_an_answer_then_is_told_newest_first() -> None:
    assert await told() == ([3, 2, 1], None)
    assert await told(version=2) == ([2], None)
    with pytest.raises(TowpathError, match="no such version"):
        await told(version=4)


async def test_history_when_it_is_too_long_for_an_answer_then_the_next_one_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipelines, "HISTORY_BYTES", 1)
    assert await told() == ([3], 2)
    assert await told(before=3) == ([2], 1)
    assert await told(before=2) == ([1], None)


class Store(Played):
    """Keeps one apply, of a coordinator that may have died right after the end."""

    def __init__(self, state: ApplyState) -> None:
        super().__init__()
        self.kept = apply_record(pipeline()).model_copy(update={"state": state})
        self.untold = {"a1"} if state is not ApplyState.RUNNING else set[str]()
        self.told: list[tuple[Event, ApplyState]] = []
        """Events, and how the apply was kept when they were told."""
        self.over = asyncio.Event()

    async def load(self, apply: str) -> tuple[ApplyRecord, dict[str, ChangeRecord]]:
        return self.kept, {}

    async def end(
        self, record: ApplyRecord, changes: dict[str, ChangeRecord], after: PipelineRecord | None
    ) -> None:
        self.kept, self.untold = record, {record.id}

    async def unannounced(self) -> list[str]:
        return sorted(self.untold)

    async def unfinished(self) -> list[str]:
        return ["a1"] if self.kept.state is ApplyState.RUNNING else []

    async def announced(self, apply: str) -> None:
        self.untold.discard(apply)
        self.over.set()

    async def publish(self, event: Event) -> None:
        self.told.append((event, self.kept.state))


@pytest.mark.parametrize("state", [ApplyState.RUNNING, ApplyState.COMPLETED], ids=["runs", "ended untold"])
async def test_end_of_an_apply_when_it_is_told_then_it_is_kept_already(state: ApplyState) -> None:
    store = Store(state)
    played = cast("Any", store)
    applies = Applies(store.situation, played, played, store.publish)
    await applies.continue_unfinished()
    async with asyncio.timeout(WITHIN_S):
        await store.over.wait()
    await applies.stop()
    ended = [kept for event, kept in store.told if isinstance(event, ApplyEnded)]
    assert ended == [ApplyState.COMPLETED]
    assert store.untold == set()


def test_apply_when_it_fails_then_its_note_says_what_is_possible() -> None:
    record = apply_record(pipeline(job("a")))
    failed = {"a": ChangeRecord(change=planned("a", Action.ADD), state=ChangeState.FAILED)}
    assert "pipeline delete delays` takes all of it away" in ended_record(record, failed, None).note
    assert "pipeline rollback delays` goes back to version 3" in ended_record(record, failed, 3).note


def test_pipeline_when_applies_failed_then_goes_back_to_the_newest_that_was_completed() -> None:
    first = PipelineRecord(name="delays", version=0, apply="a1")
    failed = {"a": ChangeRecord(change=planned("a", Action.ADD), state=ChangeState.FAILED)}
    at = first
    for version, changes in ((1, {}), (2, failed), (3, failed)):
        record = apply_record(pipeline(job("a"))).model_copy(update={"version": version})
        now = at.model_copy(update={"version": version})
        after = pipeline_after(ended_record(record, changes, now.goes_back_to), changes, now)
        assert after is not None
        at = after
    assert (at.version, at.goes_back_to) == (3, 1)
    assert first.goes_back_to is None


async def test_rollback_when_no_version_was_completed_then_is_refused_with_what_is_possible() -> None:
    played = cast("Any", Played())
    with pytest.raises(TowpathError) as refused:
        await PipelineCommands(Played().situation, played, played).rollback(
            RollbackPipeline(pipeline="delays")
        )
    assert "delete the pipeline" in str(refused.value.detail.allowed)
