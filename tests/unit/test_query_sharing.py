"""Queries share panes, numbers of panes, and groups of keys."""

from __future__ import annotations

import pytest

from towpath.contracts.operators import Chain, Window
from towpath.contracts.pipeline import PolicyName
from towpath.queries.checking import check
from towpath.queries.compilation import Asked, compiled
from towpath.queries.evaluation.group import Group
from towpath.queries.evaluation.history import Pane
from towpath.queries.evaluation.totals import Totals
from towpath.queries.explanation import explanation
from towpath.queries.parsing import parse
from towpath.queries.planning import SharedPlan, shared_plan
from towpath.queries.program import Part
from towpath.queries.running import answering
from towpath.queries.sharing import shared_keys

STREAM = 's = STREAM FROM topic(topic="site/a", value="v")\n'


def plan(text: str) -> SharedPlan:
    return shared_plan(check(parse(STREAM + text)), {"s": (0,)}, ["jfk"])


def parts(text: str) -> list[Part]:
    return sorted(kept.part for kept in plan(text).kept)


def test_panes_when_windows_differ_then_are_the_longest_at_whose_edges_all_lie() -> None:
    assert (
        plan("a = COMPUTE AVG(s, 60 s) EVERY 10 s  b = COMPUTE AVG(s, 5 m) EVERY 10 s").program.pane_micros
        == 10**7
    )
    assert plan("a = COMPUTE AVG(s, 60 s, 15 s) EVERY 20 s").program.pane_micros == 5 * 10**6
    assert plan("a = COMPUTE MEDIAN(s, 7 s) EVERY 1 m").program.pane_micros == 60 * 10**6, (
        "values need no edge"
    )


def test_numbers_when_functions_need_the_same_then_are_kept_once() -> None:
    assert parts(
        "a = COMPUTE AVG(s, 1 m) EVERY 1 m  b = COMPUTE SUM(s, 5 m) + COUNT(s, 1 m) EVERY 1 m BY k"
    ) == [
        Part.COUNT,
        Part.SUM,
    ]


def test_second_query_when_it_computes_with_the_first_ones_average_then_needs_nothing_more() -> None:
    first = "energy_10min = COMPUTE AVG(s, 10 MINUTES) EVERY 5 SECONDS\n"
    second = "energy_plus_100_10min = COMPUTE AVG(s, 10 MINUTES) + 100 EVERY 5 SECONDS\n"

    assert plan(first + second).kept == plan(first).kept
    assert plan(first + second).select == plan(first).select


def test_numbers_when_a_query_has_a_sample_then_are_its_own() -> None:
    assert parts("a = COMPUTE SUM(s, 1 m) EVERY 1 m  b = COMPUTE SUM(s, 1 m) EVERY 1 m WITH SAMPLE 0.2") == [
        Part.COUNT,
        Part.COUNT,
        Part.SUM,
        Part.SUM,
    ]


def test_programs_when_keys_differ_then_are_apart_unless_one_reads_the_other() -> None:
    apart = plan("a = COMPUTE AVG(s, 1 m) EVERY 1 m BY k  b = COMPUTE AVG(s, 1 m) EVERY 1 m BY g")
    reading = plan("a = COMPUTE AVG(s, 1 m) EVERY 1 m BY k  b = COMPUTE MAX(a, 5 m) EVERY 1 m")

    assert [len(one.keys) for one in shared_keys(apart.program)] == [1, 1]
    assert [(one.keys, len(one.program.queries)) for one in shared_keys(reading.program)] == [((), 2)]


def test_programs_when_another_query_comes_then_keep_their_names() -> None:
    before = plan("a = COMPUTE AVG(s, 1 m) EVERY 1 m BY k")
    after = plan("a = COMPUTE AVG(s, 1 m) EVERY 1 m BY k  b = COMPUTE AVG(s, 1 m) EVERY 1 m BY a0")

    (name,) = (one.name for one in shared_keys(before.program))
    assert name in [one.name for one in shared_keys(after.program)]


def test_jobs_when_a_stream_has_a_filter_then_choose_events_first_and_punctuate_panes() -> None:
    text = STREAM.replace('value="v"', 'value="v", sites="jfk", k="a%"') + "q = COMPUTE AVG(s, 1 m) EVERY 1 m"
    panes, answers = compiled(Asked("q", "cloud", text, {}, ["jfk", "cloud"])).pipeline.jobs

    assert (panes.site, answers.site, answers.output.topic) == ("jfk", "cloud", "queries/q")
    assert isinstance(panes.operator, Chain)
    assert panes.operator.step_names == ["choosing", "values", "panes"]
    assert isinstance(panes.operator.steps[-1], Window)
    assert panes.operator.steps[-1].punctuates


def test_jobs_when_events_are_at_several_sites_then_panes_cross_and_the_asking_site_answers() -> None:
    text = STREAM.replace('value="v"', 'value="v", sites="*"') + "q = COMPUTE AVG(s, 1 m) EVERY 1 m BY site"
    made = compiled(Asked("q", "cloud", text, {}, ["jfk", "lga"]))

    jfk, lga, answers = made.pipeline.jobs
    assert [job.site for job in (jfk, lga, answers)] == ["jfk", "lga", "cloud"]
    assert isinstance(jfk.operator, Chain)
    assert isinstance(jfk.operator.steps[-1], Window)
    assert [each.name for each in answers.inputs] == ["jfk/queries/q/panes", "lga/queries/q/panes"]
    running = answering(made.pipeline)
    assert running is not None
    assert running[1].text == text


def test_jobs_when_a_query_names_a_scheduler_then_only_the_one_that_answers_is_auto_and_answers_stay() -> (
    None
):
    text = STREAM.replace('value="v"', 'value="v", sites="*"') + "q = COMPUTE AVG(s, 1 m) EVERY 1 m"
    asked = Asked("q", "cloud", f"{text} WITH SCHEDULER=RAINBOW_EnergyAware", {}, ["jfk", "cloud"])

    made = compiled(asked)

    cloud, jfk, answers = made.pipeline.jobs
    assert [job.site for job in (cloud, jfk, answers)] == ["cloud", "jfk", "auto"]
    assert (answers.output_site, answers.output.topic) == ("cloud", "queries/q")
    assert made.pipeline.policy is PolicyName.ENERGY


def test_plan_when_a_query_names_a_scheduler_then_says_so_and_panes_of_all_sites_may_cross() -> None:
    text = STREAM + "q = COMPUTE AVG(s, 1 m) EVERY 1 m"

    plain = explanation(compiled(Asked("q", "jfk", text, {}, ["jfk"])))
    placed = explanation(compiled(Asked("q", "jfk", f"{text} WITH SCHEDULER=energy", {}, ["jfk"])))

    assert (plain.scheduler, plain.sites[0].bytes_per_key_and_hour) == (None, 0)
    assert placed.scheduler is PolicyName.ENERGY
    assert placed.sites[0].bytes_per_key_and_hour > 0
    assert (placed.at, placed.topic) == (plain.at, plain.topic)


@pytest.mark.parametrize(("every", "interval_s"), [("1 s", 1), ("10 s", 2), ("10 m", 10)])
def test_jobs_when_answers_are_rare_then_read_events_seldom(every: str, interval_s: float) -> None:
    text = f"{STREAM}q = COMPUTE AVG(s, 10 m) EVERY {every}"
    panes, _ = compiled(Asked("q", "jfk", text, {}, ["jfk"])).pipeline.jobs
    assert panes.trigger_s == interval_s


@pytest.mark.parametrize(
    ("every", "share", "intervals_s"), [("5 s", 0.2, (5, 1)), ("10 s", 0.5, (4, 0.5)), ("5 s", 0.01, (5, 1))]
)
def test_jobs_when_a_sample_is_enough_then_read_events_and_panes_more_seldom(
    every: str, share: float, intervals_s: tuple[float, float]
) -> None:
    text = f"{STREAM}q = COMPUTE AVG(s, 10 m) EVERY {every} WITH SAMPLE {share}"
    panes, answers = compiled(Asked("q", "jfk", text, {}, ["jfk"])).pipeline.jobs
    assert (panes.trigger_s, answers.trigger_s) == intervals_s


def test_jobs_when_all_queries_take_a_sample_then_read_no_more_than_the_largest() -> None:
    asked = "a = COMPUTE AVG(s, 1 m) EVERY 1 m WITH SAMPLE 0.2  b = COMPUTE AVG(s, 1 m) EVERY 1 m"

    def sample(text: str) -> float | None:
        panes, _ = compiled(Asked("q", "jfk", STREAM + text, {}, ["jfk"])).pipeline.jobs
        return panes.inputs[0].sample

    assert sample(asked) is None
    assert sample(f"{asked} WITH SAMPLE 0.5") == 0.5


def test_state_of_a_group_when_the_windows_of_its_keys_are_over_then_forgets_the_keys() -> None:
    text = f"{STREAM}a = COMPUTE AVG(s, 10 s) BY tail EVERY 10 s  b = COMPUTE MAX(a, 10 s) EVERY 10 s"
    asked = check(parse(text))
    planned = shared_plan(asked, dict.fromkeys(asked.sources, (0,)), ["jfk"])
    group, [tail] = Group(planned.program), planned.program.queries[0].by
    empty = len(Group(planned.program).state)
    for number in range(50):
        totals = {kept.argument: Totals(count=1, sum=[1.0]) for kept in planned.kept}
        group.take([Pane(10_000_000, {tail.column: f"n{number}"}, (1, 0), totals, {})])
    assert [*group.answers(10_000_000)]

    assert not [*group.answers(3_600_000_000)]

    assert len(group.state) < empty + 50
