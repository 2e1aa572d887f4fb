"""Scenarios on emulated topologies: which ones fit, and the report of a run on its nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from test_scenario_reading import document, rule

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import Step
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.harness.stage import Stage
from towpath.lab.scenarios import run as run_module
from towpath.lab.scenarios.campaign import together
from towpath.lab.scenarios.commands import Commands, what_of
from towpath.lab.scenarios.course import course
from towpath.lab.scenarios.reading import parse
from towpath.lab.scenarios.report import RunReport
from towpath.lab.scenarios.report_page import run_markdown
from towpath.lab.scenarios.run import Run
from towpath.lab.topology.power import NodeEnergy
from towpath.lab.topology.reading import read

TWO_NODES = str(Path(__file__).with_name("two_nodes.yaml"))
"""The nodes jfk, which moves and fails, and cloud, which does neither."""


def scenario(*steps: dict[str, Any], **mesh: Any) -> dict[str, Any]:
    timeline = [{"at": position, "node": step} for position, step in enumerate(steps)]
    return document(mesh={"topology": TWO_NODES, **mesh}, timeline=timeline)


def refusal(content: dict[str, Any]) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        parse(content)
    return refused.value


def test_scenario_when_it_names_a_topology_then_its_nodes_are_the_sites() -> None:
    assert parse(scenario()).mesh.sites == ["jfk", "cloud"]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"do": "start", "nodes": ["jfk", "cloud"]}, "start jfk, cloud"),
        ({"do": "stop", "nodes": ["jfk"]}, "stop jfk"),
        ({"do": "fail", "nodes": ["jfk"], "for_s": "5s"}, "fail jfk"),
        ({"do": "resize", "node": "jfk", "clock_ghz": 0.8}, "resize jfk"),
        ({"do": "link", "node": "cloud", "link": {"delay_ms": 5}}, "link cloud"),
        ({"do": "travel", "node": "jfk", "rounds": 2}, "travel jfk"),
        ({"do": "outages", "for_s": 30}, "outages"),
    ],
)
def test_step_when_about_nodes_of_the_topology_then_is_read_and_told_in_a_few_words(
    step: dict[str, Any], said: str
) -> None:
    [read] = parse(scenario(step)).timeline
    assert (read.action, what_of(read)) == ("node", said)


@pytest.mark.parametrize(
    ("step", "value", "allowed"),
    [
        ({"do": "fail", "nodes": ["ewr"]}, "ewr", ["jfk", "cloud"]),
        ({"do": "travel", "node": "cloud"}, "cloud", ["jfk"]),
        ({"do": "outages", "nodes": ["cloud"], "for_s": 5}, "cloud", ["jfk"]),
    ],
)
def test_step_when_the_node_is_not_one_for_it_then_is_refused_with_those_that_are(
    step: dict[str, Any], value: str, allowed: list[str]
) -> None:
    detail = refusal(scenario(step)).detail
    assert (detail.field, detail.value, detail.allowed) == ("timeline.0.node", value, allowed)


def test_step_when_it_does_not_say_what_or_resizes_to_nothing_then_is_refused() -> None:
    assert refusal(scenario({"nodes": ["jfk"]})).detail.field == "timeline.0.node"
    assert "resize" in str(refusal(scenario({"do": "resize", "node": "jfk"})).detail.field)


def test_step_when_about_nodes_and_there_is_no_topology_then_is_refused() -> None:
    content = document(timeline=[{"at": 0, "node": {"do": "stop", "nodes": ["jfk"]}}])
    detail = refusal(content).detail
    assert (detail.code, detail.field) == (ErrorCode.NOT_ALLOWED, "timeline.0.node")


def test_site_when_it_is_no_node_then_is_refused() -> None:
    detail = refusal(scenario(sites=["jfk", "cloud", "ewr"])).detail
    assert (detail.field, detail.value) == ("mesh.sites", "ewr")


def test_rule_about_a_container_when_sites_are_nodes_then_is_refused_with_steps_that_do_the_same() -> None:
    event = {"target": "container", "name": "towpath_jfk_1"}
    load = rule(name="gone", event=event, actions=[{"fault": "pause"}])
    detail = refusal(document(mesh={"topology": TWO_NODES}, timeline=[load])).detail
    assert (detail.code, detail.field) == (ErrorCode.NOT_ALLOWED, "timeline.0.load.0.event.target")
    assert "do: fail" in str(detail.allowed)


def test_topology_when_there_is_none_of_that_name_then_is_refused_with_those_there_are() -> None:
    assert "railway" in (refusal(document(mesh={"topology": "raleway"})).detail.allowed or ())


def test_campaign_when_it_names_a_scenario_with_a_topology_then_says_how_to_run_it() -> None:
    with pytest.raises(TowpathError) as refused:
        together(["lossy-link", "factory"])
    assert refused.value.detail.allowed == "`towpath fog run factory`"


async def test_step_when_carried_out_on_a_mesh_of_processes_then_fails_and_says_why() -> None:
    nothing: Any = None
    commands = Commands(Stage(*[nothing] * 4), nothing, nothing, nothing, nothing)
    step = Step.model_validate({"at": 0, "node": {"do": "stop", "nodes": ["jfk"]}})
    with pytest.raises(TowpathError) as refused:
        await commands.carry_out(step)
    assert refused.value.detail.field == "mesh.topology"


class StandingEmulation:
    """Nodes as a former run left them. It remembers every change to them."""

    def __init__(self, done: list[str]) -> None:
        self.topology = read(TWO_NODES)
        self._done = done

    async def settle(self) -> None:
        self._done.append("settled")

    async def bring_back(self) -> None:
        self._done.append("brought back")

    @asynccontextmanager
    async def at_full_speed(self) -> AsyncIterator[None]:
        self._done.append("at full speed")
        yield


class DeafBus:
    """Takes spans, and refuses everything else."""

    def ship(self, shipper: object) -> None:
        """Ship nothing."""

    async def request(self, command: Any, *, deadline_s: float, attempt_s: float | None = None) -> Any:
        raise TowpathError(ErrorCode.NOT_ALLOWED, "refused")


async def test_run_when_the_one_before_it_was_killed_then_begins_with_nodes_and_links_as_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    async def listen(*_: object) -> None:
        """There is no mesh."""

    async def prepare(*_: object) -> None:
        done.append("prepared")
        raise TowpathError(ErrorCode.NOT_ALLOWED, "that is enough")

    monkeypatch.setattr(run_module, "start_tracing", lambda *_: None)
    monkeypatch.setattr(Run, "_listen", listen)
    monkeypatch.setattr(Run, "_prepare", prepare)
    given: Any = StandingEmulation(done)
    nothing: Any = None
    bus: Any = DeafBus()
    await Run(Stage(nothing, nothing, bus, bus, given), parse(scenario()), Journal(None)).play()
    assert done[:3] == ["settled", "at full speed", "prepared"]


def test_report_when_nodes_were_metered_then_shows_what_each_and_all_took() -> None:
    energy = {
        "jfk": NodeEnergy(energy_j=120.4, mean_w=6.02, utilisation=0.25, up_s=20),
        "cloud": NodeEnergy(energy_j=900, mean_w=45, utilisation=0, up_s=20),
    }
    report = RunReport(scenario="a-scenario", recovered_s=0.0, energy=energy)
    journal = Journal(None)
    journal.add(Entry.BEGUN, scenario=parse(scenario()).model_dump(mode="json"), seed=0, chosen={}, run="r")
    journal.add(Entry.METRIC, entity="jfk", name="power_w", value=6.0)
    journal.add(Entry.ENDED, report=report.model_dump(mode="json"))
    found = course(journal.lines)
    text = run_markdown(found)
    assert "| jfk | 120 | 6.0 | 25 | 20 |" in text
    assert "All nodes together took 1,020 J." in text
    assert "jfk power_w" in found.metrics
