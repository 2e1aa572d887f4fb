"""A mesh whose settings do not switch fault rules on refuses them everywhere, and names the setting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from running.api import Api, running_api
from running.command_line import CommandLine
from running.coordinator import running_coordinator
from running.mesh import Mesh, running_mesh
from towpath.contracts.errors import ErrorCode
from towpath.contracts.fault_commands import FAULT_COMMANDS, ListRules

pytestmark = pytest.mark.asyncio(loop_scope="session")

RULE = {"name": "slow", "event": {"point": "sink.publish"}, "actions": [{"fault": "drop"}]}


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("off"), faults=False) as mesh:
        yield mesh


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def off(mesh: Mesh) -> AsyncIterator[Api]:
    async with running_coordinator(mesh) as trial, running_api(trial) as api:
        yield api


async def test_rule_when_faults_are_off_then_is_refused_with_the_settings_name_over_nats(off: Api) -> None:
    for kind in FAULT_COMMANDS:
        if kind is ListRules:
            continue
        refused = await off.trial.refusal(kind.model_validate(kind.example))
        assert (refused.detail.code, refused.detail.field) == (ErrorCode.NOT_ALLOWED, "faults.enabled")
    assert (await off.trial.ask(ListRules())).rules == []


async def test_rule_when_faults_are_off_then_is_refused_with_the_settings_name_over_rest(off: Api) -> None:
    status, problem = await off.send("POST", "/faults/rules", json={"rules": [RULE]})
    assert (status, problem["field"]) == (409, "faults.enabled")


async def test_rule_when_faults_are_off_then_the_command_ends_with_2_and_one_line(
    off: Api, tmp_path: Path
) -> None:
    (tmp_path / "slow.yaml").write_text(str(RULE))
    ended = CommandLine(off.running.home.root).call("faults", "load", str(tmp_path / "slow.yaml"))
    assert ended.returncode == 2
    [line] = [line for line in ended.stderr.splitlines() if line.strip()]
    assert "faults.enabled" in line
    assert "towpath up --faults" in line
