"""Rules in a mesh of real servers and processes: loaded, unloaded, and gone even if processes die."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psutil
import pytest
import pytest_asyncio

from running.fault_victim import UNTOUCHED
from running.injector import SLEEPER, VICTIM, WRITER, Trial, rule, running_injector
from running.links import mesh_with_links
from running.mesh import Mesh
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.contracts.errors import ErrorCode
from towpath.contracts.fault_commands import (
    DescribeFaults,
    ExplainRule,
    ListMetrics,
    ListRules,
    LoadRules,
    MetricList,
    RuleEnd,
    RuleList,
)
from towpath.contracts.faults import RuleCount, TargetKind
from towpath.contracts.links import LinkConditions, ListLinks, RestoreLink, ShapeLink
from towpath.lab.guard.process import guard_name
from towpath.processes import find

pytestmark = pytest.mark.asyncio(loop_scope="module")

DROP: dict[str, Any] = {"name": "drop", "event": {"point": "source.read"}, "fault": "drop"}
THROW: dict[str, Any] = {
    "name": "throw",
    "event": {"point": "sink.publish"},
    "fault": "throw",
    "parameters": {"error": "ConnectionError", "message": "on purpose"},
}
REPLACE: dict[str, Any] = {
    "name": "replace",
    "event": {"point": "operator.event"},
    "fault": "replace",
    "parameters": {"field": "delay", "value": None},
}
SKEW: dict[str, Any] = {
    "name": "skew",
    "event": {"target": "clock", "name": VICTIM},
    "fault": "clock_skew",
    "parameters": {"seconds": 3600},
}
PAUSE: dict[str, Any] = {"name": "pause", "event": {"target": "process", "name": SLEEPER}, "fault": "pause"}
FULL: dict[str, Any] = {"name": "full", "event": {"target": "disk", "name": WRITER}, "fault": "disk_full"}
CPU: dict[str, Any] = {
    "name": "cpu",
    "event": {"target": "machine", "name": "jfk"},
    "fault": "cpu_load",
    "parameters": {"cores": 1, "percent": 5},
}
MEMORY: dict[str, Any] = {
    "name": "memory",
    "event": {"target": "machine", "name": "hub"},
    "fault": "memory_load",
    "parameters": {"megabytes": 20},
}
SLOW: dict[str, Any] = {
    "name": "slow",
    "event": {"target": "link", "name": "jfk"},
    "fault": "slow",
    "parameters": {"delay_ms": 10},
}
CUT: dict[str, Any] = {"name": "cut", "event": {"target": "link", "name": "lga"}, "fault": "cut"}
TEN = (DROP, THROW, REPLACE, SKEW, PAUSE, FULL, CPU, MEMORY, SLOW, CUT)
HIT = {"events": 0, "published": "on purpose", "delay": None, "skew_s": 3600}


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with mesh_with_links(tmp_path_factory.mktemp("mesh")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def injecting(mesh: Mesh) -> AsyncIterator[Trial]:
    async with running_injector(mesh) as trial:
        yield trial


@pytest_asyncio.fixture(loop_scope="module")
async def trial(injecting: Trial) -> Trial:
    """Return an injector without rules, and perfect links. Tests may kill it."""
    for site in injecting.mesh.state.sites:
        await injecting.ask(RestoreLink(site=site))
    await injecting.clear()
    return injecting


async def link(trial: Trial, site: str) -> LinkConditions:
    views = (await trial.ask(ListLinks())).links
    found = next(view.conditions for view in views if view.site == site)
    return found.model_copy(update={"for_s": None})


def is_paused(trial: Trial) -> bool:
    return trial.process_of(SLEEPER).status() == psutil.STATUS_STOPPED


def is_full(trial: Trial) -> bool:
    return trial.process_of(WRITER).rlimit(resource.RLIMIT_FSIZE)[0] == 0


def loads(trial: Trial) -> list[psutil.Process]:
    """Return processes that a guard has started to use up a resource."""
    found: list[psutil.Process] = []
    for scope in ("hub", "jfk"):
        record = find(trial.home.run, guard_name(scope))
        if record is not None and record.process is not None:
            found += record.process.children(recursive=True)
    return found


async def load_all_ten(trial: Trial) -> list[psutil.Process]:
    """Load ten faults with visible effects. Return the processes that some of them consist of."""
    await trial.load(*TEN)
    await eventually(lambda: trial.sees() == HIT)
    await eventually(lambda: is_paused(trial) and is_full(trial) and len(loads(trial)) >= 2)

    async def links_are_hit() -> bool:
        return (await link(trial, "lga")).cut and (await link(trial, "jfk")).delay_ms == 10

    await eventually(links_are_hit)
    return loads(trial)


async def nothing_is_left(trial: Trial, load: list[psutil.Process]) -> None:
    """Wait until none of the ten faults has an effect any more."""

    async def links_are_perfect() -> bool:
        return all([(await link(trial, site)).perfect for site in ("jfk", "lga")])

    await eventually(lambda: trial.sees() == UNTOUCHED)
    await eventually(lambda: not is_paused(trial) and not is_full(trial))
    await eventually(lambda: not any(process.is_running() for process in load))
    await eventually(links_are_perfect)


@promise("faults")
async def test_rules_are_felt_when_loaded_and_gone_when_unloaded_one_by_one(trial: Trial) -> None:
    await trial.load(DROP, THROW, REPLACE, SKEW)
    await eventually(lambda: trial.sees() == HIT)
    await trial.unload("throw", "drop")
    await eventually(lambda: trial.sees() == {**UNTOUCHED, "delay": None, "skew_s": 3600})
    assert [view.rule.name for view in (await trial.unload()).rules] == []
    await eventually(lambda: trial.sees() == UNTOUCHED)


@promise("faults")
async def test_nothing_is_left_after_the_lease_when_the_injector_was_killed_with_ten_faults(
    trial: Trial,
) -> None:
    load = await load_all_ten(trial)
    await trial.end_injector(signal.SIGKILL)
    await nothing_is_left(trial, load)
    guards = [guard_name(scope) for scope in ("hub", "jfk", "lga")]
    await eventually(lambda: not any(find(trial.home.run, name) for name in guards))


async def test_everything_is_unloaded_when_an_injector_follows_one_that_was_killed(trial: Trial) -> None:
    load = await load_all_ten(trial)
    before = version_of(await trial.ask(ListRules()))
    assert not trial.ended
    await trial.end_injector(signal.SIGKILL)
    await trial.start_injector()
    await nothing_is_left(trial, load)
    await eventually(lambda: len(trial.ended) == len(TEN))
    assert {event.rule for event in trial.ended} == {each["name"] for each in TEN}
    assert {event.why for event in trial.ended} == {RuleEnd.INJECTOR_STARTED}
    assert (await trial.ask(ListRules())).rules == []
    assert version_of(await trial.load(DROP)) == before + 1


def version_of(rules: RuleList, name: str = "drop") -> int:
    """Return the version of the rule of this name."""
    return next(view.version for view in rules.rules if view.rule.name == name)


async def test_everything_is_unloaded_when_the_injector_is_ended(trial: Trial) -> None:
    load = await load_all_ten(trial)
    assert await trial.end_injector(signal.SIGTERM) == 0
    await nothing_is_left(trial, load)


async def test_rules_end_when_their_loader_stops_renewing_them(trial: Trial) -> None:
    [loaded] = (await trial.load(DROP, lease_s=3)).rules
    await asyncio.sleep(1)
    [renewed] = (await trial.load(DROP, lease_s=3)).rules
    assert renewed.version == loaded.version
    assert loaded.until is not None
    assert renewed.until is not None
    assert renewed.until > loaded.until

    await eventually(lambda: trial.ended)
    [ended] = trial.ended
    assert (ended.rule, ended.why) == ("drop", RuleEnd.EXPIRED)
    assert ended.at >= renewed.until
    await eventually(lambda: trial.sees() == UNTOUCHED)


async def test_rule_ends_by_itself_when_its_time_is_over_and_says_how_often_it_acted(trial: Trial) -> None:
    await trial.load({**DROP, "for_s": 8.0})
    await eventually(lambda: trial.sees()["events"] == 0)
    await eventually(lambda: trial.ended)
    assert trial.ended[0].why is RuleEnd.EXPIRED
    assert trial.ended[0].count.acted > 0
    await eventually(lambda: trial.sees() == UNTOUCHED)


async def test_counts_are_in_the_list_while_a_rule_is_loaded_and_in_what_is_told_of_its_end(
    trial: Trial,
) -> None:
    await trial.load({**DROP, "every": 3})

    async def acted() -> RuleCount | None:
        count = (await trial.ask(ListRules())).rules[0].count
        return count if count.acted else None

    count = await eventually(acted)
    assert count.looked // 3 == count.acted
    await trial.unload()
    await eventually(lambda: trial.ended)
    assert trial.ended[0].count.acted >= count.acted


async def test_no_rule_is_loaded_when_one_of_them_is_wrong(trial: Trial) -> None:
    good, bad = rule(**DROP), rule(**{**PAUSE, "event": {"target": "process", "name": "jfk-sleeepr"}})
    other = rule(**{**THROW, "where": {"site": "ewr"}})
    detail = (await trial.refusal(LoadRules(rules=[good, bad, other]))).detail
    assert [(error.field, error.value) for error in detail.errors] == [
        ("rules.1.event.name", "jfk-sleeepr"),
        ("rules.2.where.site", "ewr"),
    ]
    assert isinstance(detail.allowed, list)
    assert SLEEPER in detail.allowed
    assert (await trial.ask(ListRules())).rules == []


async def test_rule_is_explained_and_not_loaded_when_asked_for(trial: Trial) -> None:
    explained = await trial.ask(ExplainRule(rule=rule(**{**DROP, "where": {"process": "jfk-engine"}})))
    assert explained.loadable
    assert "drop" in explained.text
    explained = await trial.ask(ExplainRule(rule=rule(**{**CUT, "event": {"target": "link", "name": "ewr"}})))
    assert not explained.loadable
    assert explained.errors[0].allowed == ["jfk", "lga"]
    assert (await trial.ask(ListRules())).rules == []


async def test_catalogue_has_points_faults_and_targets_that_there_are(trial: Trial) -> None:
    catalogue = await trial.ask(DescribeFaults())
    assert VICTIM in catalogue.targets[TargetKind.PROCESS.value]
    assert catalogue.targets[TargetKind.LINK.value] == ["jfk", "lga"]
    assert "source.read" in catalogue.points
    [delay] = [fault for fault in catalogue.faults if fault.name == "delay"]
    assert ("ms", True) in [(each.name, each.required) for each in delay.parameters]
    assert all(fault.meaning for fault in catalogue.faults)


async def test_site_that_is_away_is_named_and_gets_its_rules_when_it_is_back(trial: Trial) -> None:
    await trial.end_agent("jfk")
    [view] = (await trial.load(DROP)).rules
    assert view.unreached == ["jfk"]
    assert trial.sees() == UNTOUCHED
    await trial.start_agent("jfk")
    await eventually(lambda: trial.sees()["events"] == 0)

    async def is_reached() -> bool:
        return not (await trial.ask(ListRules())).rules[0].unreached

    await eventually(is_reached)


async def test_rules_hold_on_when_the_agent_is_restarted(trial: Trial) -> None:
    await trial.load(DROP)
    await eventually(lambda: trial.sees()["events"] == 0)
    await trial.end_agent("jfk")
    await eventually(lambda: trial.sees() == UNTOUCHED)
    await trial.start_agent("jfk")
    await eventually(lambda: trial.sees()["events"] == 0)


async def test_metrics_are_heard_and_kept_when_rules_emit_them(trial: Trial) -> None:
    parameters = {"metric": "delay_min", "value": "event.delay", "labels": {"topic": "{topic}"}}
    await trial.load({**DROP, "name": "measure", "fault": "emit", "parameters": parameters})

    async def several() -> MetricList | None:
        heard = await trial.ask(ListMetrics(name="delay_min"))
        return heard if len(heard.metrics) >= 5 else None

    heard = await eventually(several)
    metric = heard.metrics[0].metric
    assert (metric.site, metric.entity, metric.value) == ("jfk", VICTIM, 20)
    assert metric.labels["topic"] == "site/a"
    later = await trial.ask(ListMetrics(after=heard.last))
    assert all(kept.serial > heard.last for kept in later.metrics)
    assert (await trial.ask(ListMetrics(site="lga"))).metrics == []


async def test_condition_hears_of_another_site_when_it_asks_for_its_load(trial: Trial) -> None:
    await trial.load({**CUT, "condition": 'cpu_percent("jfk") >= 0.0'})

    async def is_cut() -> bool:
        return (await link(trial, "lga")).cut

    await eventually(is_cut)


async def test_link_is_as_it_was_before_when_the_rule_that_made_it_worse_ends(trial: Trial) -> None:
    by_hand = LinkConditions(delay_ms=7)

    async def is_worse() -> bool:
        return (await link(trial, "jfk")).delay_ms > 7

    async def is_as_before() -> bool:
        return await link(trial, "jfk") == by_hand

    await trial.ask(ShapeLink(site="jfk", conditions=by_hand))
    await trial.load(SLOW)
    await eventually(is_worse)
    await trial.unload()
    await eventually(is_as_before)
    await trial.load(SLOW)
    await eventually(is_worse)
    await trial.end_injector(signal.SIGKILL)
    await trial.start_injector()
    await trial.ask(ListRules())
    await eventually(is_as_before)


async def test_command_is_refused_when_it_says_the_same_name_twice(trial: Trial) -> None:
    body = LoadRules(rules=[rule(**DROP)]).model_dump(mode="json")
    body["rules"] *= 2
    reply = await trial.client.connection.request(
        LoadRules.subject,
        LoadRules.model_construct(**body).model_dump_json(warnings=False).encode(),
        timeout=WITHIN_S,
    )
    assert ErrorCode.INVALID.value in reply.data.decode()
