"""The judgement of gateways to which versions were rolled out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.plan_commands import ApplyPlan, ShowPlan, UninstallPlan
from towpath.contracts.plan_rollout import DeviceState, RolloutState, RolloutView, VersionKind
from towpath.lab.harness import gateway_fleet
from towpath.lab.harness.gateway_fleet import GatewayFleet

DEVICES = ["pi-001", "pi-002"]


class PlansOfACoordinator:
    """Shows what the script says, and then that all is done. Gateways do as they are told."""

    def __init__(self, directory: Path, *script: RolloutView | TowpathError) -> None:
        self.script = [*script]
        self.asked: list[Any] = []
        self._directory = directory

    async def request(self, command: Any, **_: Any) -> RolloutView:
        if not isinstance(command, ShowPlan):
            self.asked.append(command)
            return view(DeviceState.PENDING, RolloutState.RUNNING)
        if self.script:
            answer = self.script.pop(0)
            if isinstance(answer, TowpathError):
                raise answer
            return answer
        if isinstance(self.asked[-1], UninstallPlan):
            for path in self._directory.glob("*/installed/*.json"):
                path.unlink()
            return view(DeviceState.REMOVED)
        return view(DeviceState.RUNNING)


def view(device: DeviceState, state: RolloutState = RolloutState.COMPLETED) -> RolloutView:
    kind, counts = VersionKind.APPLY, {device: len(DEVICES)}
    return RolloutView(
        plan="p", version=1, kind=kind, state=state, wave=1, waves=2, counts=counts, devices=[]
    )


def fleet(directory: Path, coordinator: PlansOfACoordinator) -> GatewayFleet:
    stage: Any = type("Stage", (), {"bus": coordinator})
    return GatewayFleet(stage, "a", DEVICES, directory)


def has(directory: Path, device: str, *, version: int, installs: int) -> None:
    """Write what a gateway has on its disk."""
    record = {"manifest": {"version": str(version)}, "properties": {"every": version}}
    for folder, files in (
        ("installed", {"thin": record}),
        ("requests", {str(n): {"topic": "x/packages/install"} for n in range(installs)}),
    ):
        place = directory / device / folder
        place.mkdir(parents=True)
        for name, content in files.items():
            (place / f"{name}.json").write_text(json.dumps(content))


async def test_version_when_the_coordinator_dies_meanwhile_then_the_same_command_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_fleet, "LOOK_EVERY_S", 0.0)
    silent = TowpathError(ErrorCode.DEADLINE, "no answer")
    coordinator = PlansOfACoordinator(tmp_path, silent, view(DeviceState.INSTALLING, RolloutState.RUNNING))

    await fleet(tmp_path, coordinator).roll_out(1)

    assert len(coordinator.asked) == 3
    assert all(isinstance(each, ApplyPlan) for each in coordinator.asked)
    assert len({each.id for each in coordinator.asked}) == 1


async def test_version_when_gateways_do_not_get_it_in_time_then_the_error_tells_how_they_are(
    tmp_path: Path,
) -> None:
    coordinator = PlansOfACoordinator(tmp_path, view(DeviceState.QUEUED_OFFLINE, RolloutState.RUNNING))

    with pytest.raises(TowpathError, match="2 queued-offline"):
        await fleet(tmp_path, coordinator).roll_out(1, within_s=0)


@pytest.mark.parametrize(
    ("version", "installs", "said"),
    [
        (2, 2, []),
        (1, 2, ["pi-002 has {'thin': ('1', {'every': 1})}, and should have"]),
        (2, 3, ["pi-002 was asked 3 times to install 2 versions"]),
    ],
    ids=["well", "an old version", "installed twice"],
)
async def test_gateways_when_one_is_not_as_the_plan_says_then_it_is_named(
    tmp_path: Path, version: int, installs: int, said: list[str]
) -> None:
    of = fleet(tmp_path, PlansOfACoordinator(tmp_path))
    of.versions = [1, 2]
    has(tmp_path, "pi-001", version=2, installs=2)
    has(tmp_path, "pi-002", version=version, installs=installs)

    problems = await of.problems()

    assert [problem[: len(each)] for problem, each in zip(problems, said, strict=True)] == said


async def test_gateways_when_something_is_left_after_the_plan_then_it_is_named(tmp_path: Path) -> None:
    of = fleet(tmp_path, PlansOfACoordinator(tmp_path))
    of.versions = [1]
    for device in DEVICES:
        has(tmp_path, device, version=1, installs=1)
    (tmp_path / "pi-001/packages/thin").mkdir(parents=True)

    assert await of.problems() == [f"after the plan's end {tmp_path}/pi-001/packages/thin is left behind"]
