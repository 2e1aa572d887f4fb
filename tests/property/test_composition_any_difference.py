"""The promises of a difference, for any two descriptions and any other jobs that run."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from running.example_counts import share_of_examples
from towpath.composition.difference import difference, pinned, spelled_out
from towpath.composition.graph import cycles, readers_of, writers, writers_of
from towpath.composition.running import RunningJob
from towpath.composition.schedule import in_order, makespan_s
from towpath.contracts.job import Input, JobSpec
from towpath.contracts.pipeline import Action, PipelineJob, PipelineSpec, PlannedChange

SITES = ("edge", "cloud", "lab")
NAMES = tuple("abcdefgh")
NOT_TOUCHED = frozenset({Action.KEEP})

Running = dict[str, RunningJob]


@st.composite
def jobs(draw: st.DrawFn, names: tuple[str, ...] = NAMES) -> list[PipelineJob]:
    """Draw jobs without circles: each reads devices, or outputs of jobs before it in a random order."""
    order = draw(st.permutations(draw(st.lists(st.sampled_from(names), unique=True, max_size=6))))
    made: list[PipelineJob] = []
    for name in order:
        before = st.sampled_from([f"t-{job.name}" for job in made] or ["site/x"])
        topics = draw(st.lists(before | st.just("site/x"), min_size=1, max_size=3, unique=True))
        places = [(site_of(topic, made), topic) for topic in topics]
        made.append(
            PipelineJob.model_validate(
                {
                    "name": name,
                    "site": draw(st.sampled_from(SITES)),
                    "inputs": [
                        {"site": site, "topic": topic, "start": draw(st.sampled_from(["earliest", "latest"]))}
                        for site, topic in dict.fromkeys(places)
                    ],
                    "output": {
                        "site": draw(st.sampled_from(SITES)),
                        # Now and then several jobs write one topic.
                        "topic": draw(st.sampled_from([f"t-{name}", f"t-{name}", "shared"])),
                    },
                    "operator": {
                        "kind": "filter",
                        "fields": {"delay": "double"},
                        "where": f"delay > {draw(st.integers(1, 3))}",
                    },
                    "trigger_s": draw(st.sampled_from([1.0, 2.0])),
                }
            )
        )
    return made


def site_of(topic: str, made: list[PipelineJob]) -> str:
    return next((job.output_site for job in made if job.output.topic == topic), "edge")


def pipeline(made: list[PipelineJob]) -> PipelineSpec:
    return PipelineSpec(name="delays", jobs=made)


def applied(spec: PipelineSpec, mine: Running, changes: list[PlannedChange]) -> Running:
    """Make the changes in their order, each by its actions alone. Return the jobs that run then."""
    state = dict(mine)
    wanted = {job.name: spelled_out(job, mine.get(job.name)) for job in spec.jobs}
    for change in in_order(changes):
        for action in change.actions:
            one(change, action, wanted, state)
    return state


def one(change: PlannedChange, action: Action, wanted: Mapping[str, JobSpec], state: Running) -> None:
    name = change.job
    if action is Action.REMOVE:
        del state[name]
    elif action is Action.ADD:
        assert name not in state
        state[name] = RunningJob(spec=wanted[name], site=wanted[name].site, pipeline="delays")
    elif action is not Action.KEEP:
        job, new = state[name], wanted[name]
        parts = {
            Action.CHANGE: {
                key: getattr(new, key) for key in ("operator", "trigger_s", "max_events_per_batch")
            },
            Action.REDIRECT: {"inputs": new.inputs, "output": new.output},
            Action.MOVE: {},
        }[action]
        site = (change.target or "") if action is Action.MOVE else job.site
        state[name] = RunningJob(spec=job.spec.model_copy(update=parts), site=site, pipeline="delays")


def running(spec: PipelineSpec) -> Running:
    return {
        job.name: RunningJob(spec=spelled_out(job), site=job.site, pipeline=spec.name) for job in spec.jobs
    }


def as_described(state: Running) -> dict[str, object]:
    """Return running jobs as a description can state them: where inputs start matters to new jobs only."""
    return {
        name: (
            job.site,
            [i.name for i in job.spec.inputs],
            job.spec.output,
            job.spec.operator,
            job.spec.trigger_s,
        )
        for name, job in state.items()
    }


outside = jobs(names=("x", "y", "z")).map(lambda made: running(pipeline(made)))
descriptions = jobs().map(pipeline)


@given(old=descriptions, new=descriptions, others=outside)
@share_of_examples(0.6)
def test_difference_when_applied_then_what_runs_is_as_described(
    old: PipelineSpec, new: PipelineSpec, others: Running
) -> None:
    mine = running(old)
    after = applied(new, mine, difference(new, mine, others))
    assert as_described(after) == as_described(running(new))
    assert {frozenset(c.actions) for c in difference(new, after, others)} <= {NOT_TOUCHED}


@given(spec=descriptions, others=outside)
@share_of_examples(0.3)
def test_difference_when_all_is_as_described_then_nothing_is_touched(
    spec: PipelineSpec, others: Running
) -> None:
    changes = difference(spec, running(spec), others)
    assert [c.job for c in changes] == sorted(job.name for job in spec.jobs)
    assert all(c.actions == [Action.KEEP] and c.after == [] for c in changes)


@given(old=descriptions, new=descriptions, others=outside)
@share_of_examples(0.6)
def test_difference_when_rolled_back_then_everything_is_as_it_was(
    old: PipelineSpec, new: PipelineSpec, others: Running
) -> None:
    mine = running(old)
    kept = pinned(old, mine)
    there = difference(new, mine, others)
    changed = applied(new, mine, there)
    back = difference(kept, changed, others)
    assert as_described(applied(kept, changed, back)) == as_described(mine)
    opposite = {Action.ADD: Action.REMOVE, Action.REMOVE: Action.ADD}
    own = {Action.ADD, Action.REMOVE, Action.CHANGE, Action.MOVE}
    forwards = {(c.job, opposite.get(a, a)) for c in there for a in c.actions if a in own}
    assert forwards == {(c.job, a) for c in back for a in c.actions if a in own}


@given(old=descriptions, new=descriptions, others=outside)
@share_of_examples(0.8)
def test_order_when_no_graph_has_a_circle_then_new_jobs_follow_readers_of_the_latest_and_others_their_writers(
    old: PipelineSpec, new: PipelineSpec, others: Running
) -> None:
    mine = running(old)
    changes = difference(new, mine, others)
    position = {c.job: n for n, c in enumerate(in_order(changes))}
    actions = {c.job: set(c.actions) for c in changes}
    wanted = [*(spelled_out(j) for j in new.jobs), *(o.spec for o in others.values())]
    then = readers_of(
        job.model_copy(update={"inputs": [i for i in job.inputs if i.start == "latest"]}) for job in wanted
    )
    now = writers_of([*(m.spec for m in mine.values()), *(o.spec for o in others.values())])
    leaving = {Action.REMOVE, Action.REDIRECT}
    for job, done in actions.items():
        if Action.ADD in done:
            new_readers = {r for r in then[job] & actions.keys() if Action.ADD in actions[r]}
            assert all(position[reader] < position[job] for reader in new_readers)
        elif done & leaving:
            old_writers = {w for w in now[job] & actions.keys() if actions[w] & leaving}
            assert all(position[writer] < position[job] for writer in old_writers)


@given(old=descriptions, new=descriptions)
@share_of_examples(0.4)
def test_job_when_its_topic_gains_or_loses_a_writer_then_is_redirected(
    old: PipelineSpec, new: PipelineSpec
) -> None:
    mine = running(old)
    before = writers(job.spec for job in mine.values())
    after = writers(spelled_out(job) for job in new.jobs)
    actions = {c.job: c.actions for c in difference(new, mine, {})}
    for job in new.jobs:
        places = [p for p in {**before, **after} if any((i.site, i.topic) == p for i in job.inputs)]
        if job.name in mine and any(after.get(p, set()) != before.get(p, set()) for p in places):
            assert Action.REDIRECT in actions[job.name]


@given(made=jobs())
@share_of_examples(0.3)
def test_cycle_when_one_input_leads_back_then_is_found_and_else_there_is_none(
    made: list[PipelineJob],
) -> None:
    assert cycles(readers_of(made)) == []
    if not made:
        return
    first, last = made[0], made[-1]
    back = Input(site=last.output_site, topic=last.output.topic)
    others = [i for i in first.inputs if i.name != back.name]
    closed = [first.model_copy(update={"inputs": [*others, back]}), *made[1:]]
    readers = readers_of(closed)
    circles = cycles(readers)
    assert bool(circles) == any(name in reached(readers, name) for name in readers)
    for found in circles:
        assert all(b in readers[a] for a, b in zip(found, [*found[1:], found[0]], strict=True))


def reached(edges: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for name in edges[left.pop()] - seen:
            seen.add(name)
            left.append(name)
    return seen


@given(old=descriptions, new=descriptions, at_once=st.integers(1, 4))
@share_of_examples(0.4)
def test_makespan_when_changes_take_a_second_each_then_lies_between_its_bounds(
    old: PipelineSpec, new: PipelineSpec, at_once: int
) -> None:
    changes = [
        c.model_copy(update={"predicted_s": 0.0 if c.actions == [Action.KEEP] else 1.0})
        for c in difference(new, running(old), {})
    ]
    work = sum(c.predicted_s for c in changes)
    depth: dict[str, float] = {}
    for c in in_order(changes):
        depth[c.job] = c.predicted_s + max((depth[name] for name in c.after), default=0.0)
    longest = max(depth.values(), default=0.0)
    # Graham's bound: no more than the critical path and the rest shared out.
    taken = makespan_s(changes, at_once)
    assert max(longest, work / at_once) <= taken + 1e-9
    assert taken <= longest + (work - longest) / at_once + 1 + 1e-9
    assert makespan_s(changes, 1) == work
