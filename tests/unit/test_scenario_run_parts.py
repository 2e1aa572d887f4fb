"""Timeline, steady state, rules on a lease, expectations: without a mesh."""

from __future__ import annotations

import asyncio
from typing import Any

import psutil
import pytest
from test_scenario_reading import document, rule

from running.waiting import eventually
from towpath.checker.verdict import FAULTS, Verdict
from towpath.contracts.commands import JobView, OperationState, OperationView, StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import ListRules, LoadRules, RenewRules, RuleList, UnloadRules
from towpath.contracts.faults import Rule, RuleCount
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.scenario import Step, Trigger
from towpath.contracts.scenario_expectations import Expectations
from towpath.contracts.scenario_load import StandardJob
from towpath.lab.harness import held_rules
from towpath.lab.harness.held_rules import HeldRules
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.harness.report import FINDINGS, Judgement, MoveReport, in_words
from towpath.lab.harness.workload import spec_of
from towpath.lab.scenarios.expectations import unmet
from towpath.lab.scenarios.judging import misplaced
from towpath.lab.scenarios.mesh_events import MeshEvents, matches
from towpath.lab.scenarios.probes import ProbeValue
from towpath.lab.scenarios.reading import parse
from towpath.lab.scenarios.report import RuleOutcome, RunReport
from towpath.lab.scenarios.steadiness import Steadiness
from towpath.lab.scenarios.timeline import Timeline

RULE = Rule.model_validate(rule()["load"][0])


class FakeInjector:
    """Keeps rules as the injector does, and can be away."""

    def __init__(self) -> None:
        self.loaded: dict[str, Rule] = {}
        self.versions: dict[str, int] = {}
        self.leases: list[float | None] = []
        self.renewed: list[dict[str, int]] = []
        self.identifiers: set[str] = set()
        self.away = False

    async def request(self, command: Any, *, deadline_s: float, attempt_s: float | None = None) -> RuleList:
        if self.away:
            raise TowpathError(ErrorCode.UNREACHABLE, "no one answers")
        assert command.id not in self.identifiers, "who serves a command answers a repeated one from memory"
        self.identifiers.add(command.id)
        if isinstance(command, LoadRules):
            for entry in command.rules:
                self.loaded[entry.name] = entry
                self.versions[entry.name] = self.versions.get(entry.name, 0) + 1
            self.leases.append(command.lease_s)
        elif isinstance(command, RenewRules):
            self.leases.append(command.lease_s)
            self.renewed.append(command.versions)
        elif isinstance(command, UnloadRules):
            for name in command.names or list(self.loaded):
                self.loaded.pop(name, None)
        else:
            assert isinstance(command, ListRules)
        return RuleList.model_validate({"rules": [self._view(entry) for entry in self.loaded.values()]})

    def _view(self, entry: Rule) -> dict[str, Any]:
        version = self.versions.get(entry.name, 1)
        count = {"rule": entry.name, "version": version, "looked": 5, "acted": 2}
        at = "2026-01-01T00:00:00Z"
        return {"rule": entry, "version": version, "loaded_at": at, "scopes": ["jfk"], "count": count}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_rules, "RENEW_S", 0.01)


@pytest.mark.usefixtures("quick")
async def test_rules_when_held_then_are_renewed_with_a_lease_until_unloaded() -> None:
    injector = FakeInjector()
    async with HeldRules(injector, Journal(None)) as rules:  # type: ignore[arg-type]
        await rules.load([RULE])
        await eventually(lambda: len(injector.leases) > 3)
        assert all(lease is not None and lease <= 30 for lease in injector.leases)
        await rules.unload([RULE.name])
        assert injector.loaded == {}
        assert rules.counts[RULE.name].acted == 2


async def test_rules_when_somebody_elses_have_their_name_then_those_are_not_replaced() -> None:
    injector = FakeInjector()
    theirs = RULE.model_copy(update={"every": 7})
    injector.loaded[RULE.name] = theirs
    async with HeldRules(injector, Journal(None)) as rules:  # type: ignore[arg-type]
        for loading in (rules.load, rules.load_idle):
            with pytest.raises(TowpathError) as refused:
                await loading([RULE])
            assert (refused.value.detail.code, refused.value.detail.value) == (
                ErrorCode.NAME_IN_USE,
                RULE.name,
            )
        await rules.unload_all()
    assert injector.loaded == {RULE.name: theirs}


async def test_rules_when_the_run_loads_one_again_then_it_is_its_own() -> None:
    injector = FakeInjector()
    async with HeldRules(injector, Journal(None)) as rules:  # type: ignore[arg-type]
        for _ in range(2):
            await rules.load([RULE])
        assert rules.names == [RULE.name]


@pytest.mark.usefixtures("quick")
async def test_rules_when_the_injector_forgot_them_then_are_not_loaded_again() -> None:
    injector = FakeInjector()
    async with HeldRules(injector, Journal(None)) as rules:  # type: ignore[arg-type]
        await rules.load([RULE])
        injector.loaded.clear()
        await eventually(lambda: not rules.names)
        assert injector.loaded == {}


@pytest.mark.usefixtures("quick")
async def test_rules_when_somebody_else_replaced_them_then_are_left_to_whom_they_are() -> None:
    injector = FakeInjector()
    async with HeldRules(injector, Journal(None)) as rules:  # type: ignore[arg-type]
        await rules.load([RULE])
        await injector.request(LoadRules(rules=[RULE], lease_s=None), deadline_s=1.0)
        await eventually(lambda: not rules.names)
        assert injector.versions[RULE.name] == 2


@pytest.mark.usefixtures("quick")
async def test_rules_when_loaded_again_then_the_end_of_the_former_ones_does_not_end_renewing() -> None:
    injector = FakeInjector()
    async with HeldRules(injector, Journal(None)) as rules:  # type: ignore[arg-type]
        await rules.load([RULE])
        await rules.load([RULE])
        rules.ended(RULE.name, "replaced", RuleCount(rule=RULE.name, version=1, looked=5, acted=2))
        assert rules.names == [RULE.name]
        await eventually(lambda: {RULE.name: 2} in injector.renewed)


@pytest.mark.usefixtures("quick")
async def test_rules_when_the_injector_is_away_for_a_moment_then_renewing_goes_on() -> None:
    injector = FakeInjector()
    async with HeldRules(injector, Journal(None)) as rules:  # type: ignore[arg-type]
        await rules.load([RULE])
        injector.away = True
        await asyncio.sleep(0.05)
        injector.away, before = False, len(injector.leases)
        await eventually(lambda: len(injector.leases) > before)
        assert rules.names == [RULE.name]


async def test_rules_when_no_one_can_unload_them_then_their_lease_is_relied_on() -> None:
    injector = FakeInjector()
    async with HeldRules(injector, Journal(None)) as rules:  # type: ignore[arg-type]
        await rules.load([RULE])
        injector.away = True
        await rules.unload_all()
    assert injector.leases == [held_rules.LEASE_S]


async def test_counts_when_told_with_the_end_of_a_rule_then_the_larger_ones_stay() -> None:
    async with HeldRules(FakeInjector(), Journal(None)) as rules:  # type: ignore[arg-type]
        await rules.load([RULE])
        rules.ended(RULE.name, "expired", RuleCount(rule=RULE.name, version=1, looked=9, acted=7))
        await rules.counted(1.0)
        await rules.count()
        assert rules.counts[RULE.name].acted == 7
        assert rules.names == []


@pytest.mark.parametrize(
    ("event", "where", "heard"),
    [
        ("operation.*.step", {}, True),
        ("operation.>", {}, True),
        ("operation.m1.step", {"step": "set-epoch"}, True),
        ("operation.*.step", {"step": "set-epoch", "phase": "confirmed"}, False),
        ("operation.*.ended", {}, False),
        ("operation.*", {}, False),
        ("operation.m1.step.>", {}, False),
    ],
)
def test_trigger_when_subject_and_fields_fit_then_matches(
    event: str, where: dict[str, Any], heard: bool
) -> None:
    trigger = Trigger(event=event, where=where)
    assert matches(trigger, "operation.m1.step", {"step": "set-epoch", "phase": "begun"}) is heard


def steps(*contents: dict[str, Any]) -> list[Step]:
    return parse(document(mesh={"jobs": ["other"]}, timeline=list(contents))).timeline


async def test_timeline_when_played_then_steps_come_in_order_of_time_and_event() -> None:
    done: list[str] = []

    async def carry_out(step: Step) -> None:
        done.append(f"{step.action} {step.at}")

    events = MeshEvents(Journal(None), lambda ended: None)
    given = steps(
        {"at": 0.05, "migrate": {"job": "counted"}},
        {"at": 0, "scale": {"job": "counted", "trigger_s": 1}},
        {"on": "operation.*.ended", "remove": {"job": "counted"}},
    )
    playing = asyncio.create_task(Timeline(given, carry_out, events, Journal(None)).play())
    await eventually(lambda: len(done) == 2)
    assert not playing.done()
    events.take("operation.m1.ended", {})
    await playing
    assert done == ["scale 0.0", "migrate 0.05", "remove None"]


@pytest.mark.parametrize(("begins", "done"), [(True, ["remove"]), (False, [])])
async def test_step_that_an_end_makes_needless_when_that_comes_first_then_is_left_out(
    begins: bool, done: list[str]
) -> None:
    executed: list[str] = []

    async def carry_out(step: Step) -> None:
        executed.append(step.action)

    events = MeshEvents(Journal(None), lambda ended: None)
    trigger = {"event": "operation.*.step", "where": {"step": "resume"}, "unless_ended": "counted"}
    timeline = Timeline(
        steps({"on": trigger, "remove": {"job": "counted"}}), carry_out, events, Journal(None)
    )
    if begins:
        events.take("operation.m1.step", {"job": "counted", "step": "resume"})
    events.take("operation.m1.ended", {"job": "counted"})
    await timeline.play()
    assert (executed, timeline.problems) == (done, [])


@pytest.mark.parametrize(
    "error",
    [
        TowpathError(ErrorCode.BUSY, "another operation is under way"),
        psutil.NoSuchProcess(7, msg="another operation is under way"),
        OSError("another operation is under way"),
    ],
)
async def test_timeline_when_a_step_fails_then_the_others_go_on_and_it_is_told(error: Exception) -> None:
    done: list[str] = []

    async def carry_out(step: Step) -> None:
        if step.migrate is not None:
            raise error
        done.append(step.action)

    journal = Journal(None)
    given = steps({"at": 0, "migrate": {"job": "counted"}}, {"at": 0, "remove": {"job": "counted"}})
    timeline = Timeline(given, carry_out, MeshEvents(journal, lambda ended: None), journal)
    await timeline.play()
    assert done == ["remove"]
    [problem] = timeline.problems
    assert problem.startswith("the step migrate counted by auto failed: ")
    assert "another operation is under way" in problem
    told, none = [line.get("error") for line in journal.of(Entry.STEP)]
    assert ("another operation is under way" in told, none) == (True, None)


async def test_timeline_when_an_event_does_not_come_then_that_is_a_problem() -> None:
    async def carry_out(step: Step) -> None:
        raise AssertionError("nothing to do")

    given = steps({"on": {"event": "site.jfk.changed", "within_s": 0.02}, "remove": {"job": "counted"}})
    timeline = Timeline(given, carry_out, MeshEvents(Journal(None), lambda ended: None), Journal(None))
    await timeline.play()
    assert timeline.problems == [
        "the step remove counted failed: site.jfk.changed did not come within 0.02 s"
    ]


def look(**inside: bool) -> list[ProbeValue]:
    return [ProbeValue(name, 1.0, value) for name, value in inside.items()]


def test_steadiness_when_left_and_back_then_says_for_how_long_and_where() -> None:
    journal = Journal(None)
    steadiness = Steadiness([], None, journal)  # type: ignore[arg-type]
    steadiness.take(look(lag=False, gap=True), 0.0)
    steadiness.watch_from_now()
    for now, inside in ((10.0, True), (11.0, False), (12.0, False), (13.0, True)):
        steadiness.take(look(lag=inside, gap=True), now)
    assert (steadiness.deviated, steadiness.last_outside, steadiness.since) == ({"lag": 2}, 12.0, 13.0)
    assert [line["after_s"] for line in journal.of(Entry.STEADY)] == [2.0]
    assert [line["probes"] for line in journal.of(Entry.DEVIATED)] == [["lag"]]


async def test_steadiness_when_it_cannot_look_any_more_then_those_who_wait_are_told() -> None:
    class BrokenSampler:
        async def look(self, behind: object) -> None:
            raise KeyError("jfk")

    steadiness = Steadiness([], BrokenSampler(), Journal(None))  # type: ignore[arg-type]
    steadiness.take(look(lag=True), 0.0)
    with pytest.raises(KeyError):
        await steadiness.run()
    with pytest.raises(TowpathError, match="the probes ended"):
        await steadiness.until_held(1.0, 5.0)


def run(**changes: Any) -> RunReport:
    return RunReport.model_validate(
        {"scenario": "s", "verdicts": {"j": {"expected": 9, "results": 9}}, "recovered_s": 1.0} | changes
    )


def problems(run_report: RunReport, **expected: Any) -> list[str]:
    return list(unmet(Expectations.model_validate(expected), run_report))


def test_expectations_when_all_met_then_no_problem() -> None:
    assert problems(run()) == []


@pytest.mark.parametrize("finding", [*FAULTS, "out_of_order"])
def test_finding_when_none_is_expected_then_is_a_problem_with_its_example(finding: str) -> None:
    verdict = Judgement.model_validate({finding: 2, "examples": {finding: ["window 7"]}})
    [text] = problems(run(verdicts={"j": verdict}))
    assert text.startswith(f"2 results {finding.replace('_', ' ')}, expected 0, e.g. window 7")


@pytest.mark.parametrize("finding", FINDINGS)
def test_finding_of_the_checker_when_a_scenario_bounds_it_then_counts(finding: str) -> None:
    verdict = Verdict()
    setattr(verdict, finding, 2)
    found = run(verdicts={"j": Judgement.of(verdict)})
    assert in_words(found.findings) == f"2 {finding.replace('_', ' ')}"
    assert len(problems(found, **{finding: 0})) == 1
    assert problems(found, **{finding: 2}) == []


@pytest.mark.parametrize("finding", ["nonmonotonic", "premature", "late"])
def test_notice_when_nothing_was_promised_then_is_no_problem(finding: str) -> None:
    assert problems(run(verdicts={"j": Judgement.model_validate({finding: 2})})) == []


def test_report_of_earlier_days_when_it_lacks_newer_words_then_counts_none_of_them() -> None:
    old = run(verdicts={"j": {"expected": 9, "results": 8, "lost": 1, "out_of_order": 0}})
    assert (old.total("unseen"), old.total("premature"), in_words(old.findings)) == (0, 0, "1 lost")


@pytest.mark.parametrize("verdicts", [{}, {"j": {"expected": 0, "results": 0}}])
def test_expectations_when_nothing_could_be_judged_then_what_they_bound_is_not_met(
    verdicts: dict[str, Any],
) -> None:
    assert problems(run(verdicts=verdicts), lost=0, late={"at_least": 0}) == [
        "no results could be judged, so no one knows what was lost"
    ]
    assert problems(run(verdicts=verdicts)) == []


def test_planted_bug_when_the_checker_does_not_find_it_then_is_a_problem() -> None:
    assert problems(run(), lost={"at_least": 1}) == ["0 results lost, expected 1 or more"]
    found = run(verdicts={"j": {"lost": 3}})
    assert problems(found, lost={"at_least": 1}) == []


@pytest.mark.parametrize(
    ("changes", "expected", "problem"),
    [
        ({"recovered_s": None, "deviated": {"lag j": 3}}, {}, "steady state did not come back: lag j"),
        (
            {"recovered_s": 12.0},
            {"recovers_within_s": 10},
            "steady state came back after 12.0 s, expected 10 s",
        ),
        ({}, {"deviates": "must"}, "steady state was never left"),
        ({"deviated": {"lag j": 1}}, {"deviates": "must_not"}, "steady state was left: lag j"),
        (
            {"rules": [RuleOutcome(rule="r", event="point sink.publish", faults=["drop"])]},
            {},
            "the rule r never acted",
        ),
        (
            {"migrations": [MoveReport(job="j", strategy=StrategyName.GENERAL)]},
            {},
            "the migration of j did not end",
        ),
        (
            {"results_again_s": None},
            {"results_again_within_s": 30},
            "results did not flow again, expected 30 s",
        ),
        (
            {"results_again_s": 31.0},
            {"results_again_within_s": 30},
            "results flowed again after 31.0 s, expected 30 s",
        ),
    ],
)
def test_run_when_not_as_expected_then_says_what(
    changes: dict[str, Any], expected: dict[str, Any], problem: str
) -> None:
    assert problems(run(**changes), **expected) == [problem]


@pytest.mark.parametrize(
    ("state", "allowed", "fine"),
    [
        (OperationState.COMPLETED, "completed", True),
        (OperationState.ROLLED_BACK, "completed", False),
        (OperationState.ROLLED_BACK, "well", True),
        (OperationState.NEEDS_OPERATOR, "well", False),
    ],
)
def test_migration_when_it_ended_then_is_judged_by_how_it_may_end(
    state: OperationState, allowed: str, fine: bool
) -> None:
    move = MoveReport(job="j", strategy=StrategyName.HANDOVER, state=state)
    assert (problems(run(migrations=[move]), migrations=allowed) == []) is fine


@pytest.mark.parametrize(
    ("state", "site", "fine"),
    [
        (OperationState.COMPLETED, "cloud", True),
        (OperationState.COMPLETED, "jfk", False),
        (OperationState.ROLLED_BACK, "jfk", True),
        (OperationState.ROLLED_BACK, "cloud", False),
        (OperationState.NEEDS_OPERATOR, "cloud", True),
    ],
)
def test_job_when_its_migration_has_ended_then_must_be_where_that_has_left_it(
    state: OperationState, site: str, fine: bool
) -> None:
    spec = spec_of(StandardJob(name="j", workload="windows", site="jfk"))
    output = ResolvedOutput(site="jfk", stream="OUT_j", topic="j", rejected_topic="j/rejected")
    view = JobView(spec=spec, site=site, epoch=2, state=None, operation=None, status=None, output=output)
    move = MoveReport(job="j", strategy=StrategyName.GENERAL, state=state, source="jfk", target="cloud")
    back = move.model_copy(update={"state": OperationState.COMPLETED, "target": "elsewhere"})
    assert (misplaced(view, [back, move]) is None) is fine


def test_removal_when_reported_then_tells_how_far_the_job_came() -> None:
    at = "2026-01-01T00:00:00Z"
    stopped = {"step": "stop-job", "phase": "confirmed", "at": at, "detail": {"serials": {"jfk/x": 7}}}
    shown = {"operation": "r1", "kind": "remove", "job": "j", "state": "completed", "begun_at": at}
    move = MoveReport.of(OperationView.model_validate({**shown, "journal": [stopped]}))
    assert (move.kind, move.is_removal, move.stopped_after) == ("remove", True, {"jfk/x": 7})
