"""Uplinks as the coordinator accepts them: what contradicts is refused, and sites hear all that they do."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, cast

import pytest
from coordinator_trial import entry, job

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import SiteState
from towpath.contracts.uplink import (
    ApplyUplinks,
    ListUplinks,
    RemoveUplink,
    ReportUplinks,
    SetUplinks,
    UplinkReport,
    UplinkSpec,
    UplinkState,
)
from towpath.coordinator.situation import Situation
from towpath.coordinator.uplinks import UplinkCommands
from towpath.protocols.record import JobEntry


class Mesh:
    """A registry, sites and a bus."""

    def __init__(self, *jobs: JobEntry) -> None:
        self.entries = {each.spec.name: each for each in jobs}
        self.hashes: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.numbers: defaultdict[str, int] = defaultdict(int)
        self.sets: defaultdict[str, set[str]] = defaultdict(set)
        self.names = ["cloud", "jfk"]
        self.away: set[str] = set()
        self.told: dict[str, SetUplinks] = {}

    async def call(self, method: str, key: str, *values: str) -> Any:
        match method, values:
            case "hgetall", ():
                return dict(self.hashes[key])
            case "get", ():
                return self.numbers[key]
            case "smembers", ():
                return self.sets[key]
            case _:
                raise AssertionError(method)

    async def write(self, *commands: tuple[str, ...]) -> None:
        for verb, key, *values in commands:
            match verb, values:
                case "HSET", [name, text]:
                    self.hashes[key][name] = text
                case "HDEL", [name]:
                    self.hashes[key].pop(name, None)
                case "INCR", []:
                    self.numbers[key] += 1
                case "SET", [number]:
                    self.numbers[key] = int(number)
                case "SADD", [member]:
                    self.sets[key].add(member)
                case "SREM", [member]:
                    self.sets[key].discard(member)
                case _:
                    raise AssertionError(verb)

    async def jobs(self) -> dict[str, JobEntry]:
        return self.entries

    def check_known(self, site: str, field: str) -> None:
        if site not in self.names:
            raise TowpathError.unknown("site", site, self.names, field=field)

    def state(self, site: str) -> SiteState:
        return SiteState.DOWN if site in self.away else SiteState.UP

    async def request(self, command: SetUplinks | ReportUplinks, *, deadline_s: float) -> UplinkReport:
        known = self.told.get(command.site)
        if isinstance(command, ReportUplinks):
            assert known is not None
            return UplinkReport(revision=known.revision, uplinks=[])
        if known is not None and command.revision < known.revision:
            raise TowpathError(ErrorCode.NOT_ALLOWED, "later", field="revision", value=command.revision)
        self.told[command.site] = command
        return UplinkReport(revision=command.revision, uplinks=[])

    @property
    def commands(self) -> UplinkCommands:
        played = cast("Any", self)
        return UplinkCommands(Situation(played, played, played, played))


def uplink(name: str = "a", **fields: Any) -> UplinkSpec:
    wanted = {"name": name, "site": "jfk", "topic": "site/a", "to": "cloud", **fields}
    return UplinkSpec.model_validate(wanted)


async def refusal(mesh: Mesh, *specs: UplinkSpec) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        await mesh.commands.apply(ApplyUplinks(uplinks=[*specs]))
    return refused.value


async def test_apply_when_both_sites_are_up_then_each_hears_its_part() -> None:
    mesh = Mesh()

    await mesh.commands.apply(ApplyUplinks(uplinks=[uplink()]))

    assert [each.spec.name for each in mesh.told["jfk"].sends] == ["a"]
    assert [each.spec.name for each in mesh.told["cloud"].receives] == ["a"]


async def test_apply_when_a_site_is_away_then_it_is_told_when_it_is_back() -> None:
    mesh = Mesh()
    mesh.away = {"jfk"}
    commands = mesh.commands
    found = await commands.apply(ApplyUplinks(uplinks=[uplink()]))
    assert found.uplinks[0].status.state is UplinkState.UNKNOWN
    assert "jfk" not in mesh.told

    mesh.away = set()
    await commands.list_uplinks(ListUplinks())

    assert mesh.told["jfk"].sends


async def test_apply_when_the_registry_was_restored_from_an_older_copy_then_sites_take_it() -> None:
    mesh = Mesh()
    for name in ("a", "b", "c"):
        await mesh.commands.apply(ApplyUplinks(uplinks=[uplink(name, publish=f"at/{name}")]))
    mesh.hashes.clear()
    mesh.numbers.clear()

    await mesh.commands.apply(ApplyUplinks(uplinks=[uplink("d")]))

    told = {site: [each.spec.name for each in mesh.told[site].sends] for site in ("jfk", "cloud")}
    assert told == {"jfk": ["d"], "cloud": []}
    assert [each.spec.name for each in mesh.told["cloud"].receives] == ["d"]


async def test_apply_when_a_job_writes_the_topic_then_its_stream_is_read() -> None:
    mesh = Mesh(entry(job("clean", writes="out/clean")))

    found = await mesh.commands.apply(ApplyUplinks(uplinks=[uplink(topic="out/clean")]))

    assert (found.uplinks[0].uplink.stream, found.uplinks[0].uplink.subject) == ("OUT_clean", None)


async def test_apply_when_one_of_several_is_wrong_then_none_is_applied() -> None:
    mesh = Mesh()

    wrong = await refusal(mesh, uplink(), uplink("b", topic="never/written"))

    assert (wrong.detail.code, wrong.detail.field) == (ErrorCode.UNKNOWN_TOPIC, "uplinks.1.topic")
    assert mesh.told == {}


async def test_apply_when_two_publish_one_topic_then_it_is_refused() -> None:
    wrong = await refusal(Mesh(), uplink(), uplink("b"))

    assert (wrong.detail.code, wrong.detail.field) == (ErrorCode.NAME_IN_USE, "uplinks.1.publish")


async def test_apply_when_its_topic_becomes_another_then_it_is_refused() -> None:
    mesh = Mesh()
    await mesh.commands.apply(ApplyUplinks(uplinks=[uplink()]))

    wrong = await refusal(mesh, uplink(topic="site/b"))

    assert (wrong.detail.code, wrong.detail.field) == (ErrorCode.NOT_ALLOWED, "uplinks.0.name")


async def test_apply_when_the_site_is_unknown_then_it_is_refused() -> None:
    wrong = await refusal(Mesh(), uplink(to="clod"))

    assert (wrong.detail.code, wrong.detail.field) == (ErrorCode.UNKNOWN_SITE, "uplinks.0.to")


async def test_remove_when_purged_then_the_destination_deletes_what_arrived_until_it_is_applied_again() -> (
    None
):
    mesh = Mesh()
    commands = mesh.commands
    await commands.apply(ApplyUplinks(uplinks=[uplink()]))

    await commands.remove(RemoveUplink(uplink="a", purge=True))
    assert mesh.told["jfk"].sends == []
    assert mesh.told["cloud"].purged == ["UPLINK_a"]

    await commands.apply(ApplyUplinks(uplinks=[uplink()]))
    assert mesh.told["cloud"].purged == []
