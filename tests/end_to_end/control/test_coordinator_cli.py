"""The command line's migrations, against a real coordinator. Agents act, but run no Spark."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from running.coordinator import Trial, spec
from running.waiting import WITHIN_S, eventually
from towpath.cli.endings import BAD_INPUT, FAILED
from towpath.contracts.commands import DeployJob, StrategyName

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass
class Ended:
    """The exit code and output of `towpath`."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


async def towpath(trial: Trial, *arguments: str) -> Ended:
    command = [sys.executable, "-m", "towpath.cli", "--home", str(trial.running.home.root), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), WITHIN_S)
    return Ended(process.returncode or 0, out.decode(), err.decode())


async def test_migrate_when_done_then_tells_strategy_reason_and_costs_and_is_listed(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    dry = await towpath(trial, "migrate", "counts", "--to", "lga", "--dry-run", "--json")
    assert (dry.json["strategy"], dry.json["target"]) == ("handover", "lga")
    assert trial.owners("counts") == ["jfk"]
    moved = await towpath(trial, "migrate", "counts", "--to", "lga")
    assert moved.code == 0, moved.err
    assert moved.err.startswith("handover: its results depend on the events alone")
    assert all(
        word in moved.out for word in ("completed", "expected", "measured", "downtime", "plain machine")
    )
    assert trial.owners("counts") == ["lga"]
    (newest,) = (await towpath(trial, "migrations", "--limit", "1", "--json")).json
    assert (newest["strategy"], newest["state"]) == ("handover", "completed")
    table = (await towpath(trial, "migrations")).out
    assert newest["operation"] in table
    assert "jfk → lga" in table
    journal = (await towpath(trial, "migration", newest["operation"])).out
    assert all(word in journal for word in ("await-consistency", "monitor", "confirmed", "took"))
    again = await towpath(trial, "migration", newest["operation"], "abort")
    assert (again.code, again.out) == (BAD_INPUT, "")
    assert "has ended already" in again.err


async def test_migration_when_aborted_then_both_who_asked_and_who_waits_are_told(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.gates["ship-checkpoint"] = asyncio.Event()
    moving = trial.in_background(towpath(trial, "migrate", "counts", "--to", "lga"))
    await eventually(lambda: trial.agents.was_reached("jfk ship-checkpoint"))
    operation = (await trial.job("counts")).operation
    under_way = (await towpath(trial, "migration", operation)).out
    assert "running" in under_way
    aborted = await towpath(trial, "migration", operation, "abort")
    assert aborted.code == 0, aborted.err
    assert "rolled back" in aborted.out
    waited = await moving
    assert waited.code == FAILED
    assert "aborted by request" in waited.err
    assert trial.owners("counts") == ["jfk"]


async def test_migrate_when_no_one_waits_long_enough_then_says_that_it_goes_on_and_how_to_follow_it(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.gates["ship-checkpoint"] = asyncio.Event()
    waited = await towpath(trial, "migrate", "counts", "--to", "lga", "--within", "10")
    operation = (await trial.job("counts")).operation
    assert waited.code == FAILED
    assert f"towpath migration {operation}" in waited.err
    trial.agents.gates["ship-checkpoint"].set()

    async def moved() -> bool:
        return trial.owners("counts") == ["lga"]

    await eventually(moved)


async def test_operation_when_it_is_no_migration_then_migration_names_the_command_that_shows_it(
    trial: Trial,
) -> None:
    deployed = (await trial.ask(DeployJob(spec=spec("counts")))).operation
    refused = await towpath(trial, "migration", deployed)
    assert refused.code == BAD_INPUT
    assert f"towpath operation {deployed}" in refused.err
    assert "start-job" in (await towpath(trial, "operation", deployed)).out


async def test_migrate_when_the_strategy_cannot_work_then_one_line_says_which_can(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    for more in ([], ["--dry-run"]):
        refused = await towpath(trial, "migrate", "counts", "--to", "lga", "--strategy", "parallel", *more)
        assert (refused.code, refused.out, refused.err.count("\n")) == (BAD_INPUT, "", 1)
        assert StrategyName.HANDOVER in refused.err
