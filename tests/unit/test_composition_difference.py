"""The changes that a changed description asks for, by readable examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from towpath.composition.difference import difference, pinned, spelled_out
from towpath.composition.documents import read_document
from towpath.composition.field_changes import field_changes
from towpath.composition.graph import Stream
from towpath.composition.running import RunningJob
from towpath.composition.schedule import in_order, makespan_s
from towpath.composition.validation import SiteFacts, problems
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Input
from towpath.contracts.operators import Python
from towpath.contracts.pipeline import Action, PipelineJob, PipelineSpec, PlannedChange
from towpath.contracts.site import SiteState, SiteStatus

EXAMPLES = Path(__file__).parents[2] / "examples"
SITES = [
    SiteStatus(site=name, state=SiteState.UP, nats_url="nats://10.0.0.1:4222", mqtt_host="h", mqtt_port=1)
    for name in ("jfk", "lga", "cloud")
]

LATE: dict[str, Any] = {
    "name": "late",
    "site": "jfk",
    "inputs": [{"site": "jfk", "topic": "site/x"}],
    "output": {"topic": "late"},
    "operator": {"kind": "filter", "fields": {"delay": "double"}, "where": "delay > 15"},
}


def job(**changes: Any) -> PipelineJob:
    return PipelineJob.model_validate({**LATE, **changes})


def running(*jobs: PipelineJob, site: str | None = None) -> dict[str, RunningJob]:
    return {j.name: RunningJob(spelled_out(j), site or j.site, "delays") for j in jobs}


def change(new: PipelineJob, *, site: str | None = None) -> PlannedChange:
    """Return the change from `LATE`, which runs at its site or `site`, to `new`."""
    spec = PipelineSpec(name="delays", jobs=[new])
    (found,) = difference(spec, running(job(), site=site), {})
    return found


def example(name: str) -> PipelineSpec:
    text = (EXAMPLES / name).read_text()
    return read_document(text, name=None, sites=SITES, otherwise="speck").spec


@pytest.mark.parametrize(
    ("changes", "actions", "reason"),
    [
        (
            {"operator": {**LATE["operator"], "where": "delay > 30"}},
            [Action.CHANGE],
            'operator.where: "delay > 15" → "delay > 30"',
        ),
        ({"trigger_s": 2.0}, [Action.CHANGE], "trigger_s: 1.0 → 2.0"),
        ({"max_events_per_batch": 9}, [Action.CHANGE], "max_events_per_batch: null → 9"),
        ({"output": {"topic": "very"}}, [Action.REDIRECT], 'output.topic: "late" → "very"'),
        (
            {"inputs": [{"site": "jfk", "topic": "site/y"}]},
            [Action.REDIRECT],
            'inputs[0].topic: "site/x" → "site/y"',
        ),
        ({"site": "cloud"}, [Action.MOVE], "site: jfk → cloud"),
        (
            {"site": "cloud", "trigger_s": 2.0, "output": {"topic": "very"}},
            [Action.CHANGE, Action.REDIRECT, Action.MOVE],
            'trigger_s: 1.0 → 2.0; output.topic: "late" → "very"; site: jfk → cloud',
        ),
        ({"strategy": "general", "resources": {"cores": 1}}, [Action.KEEP], "unchanged"),
        ({"inputs": [{"site": "jfk", "topic": "site/x", "start": "latest"}]}, [Action.KEEP], "unchanged"),
        (
            {"inputs": [{"site": "jfk", "topic": "site/x", "identity": ["id"]}]},
            [Action.CHANGE],
            'inputs[0].identity[0]: (absent) → "id"',
        ),
        (
            {"inputs": [{"site": "jfk", "topic": "site/x", "repeats_within": 9}]},
            [Action.CHANGE],
            "inputs[0].repeats_within: 20000 → 9",
        ),
        ({"output": {"topic": "late", "site": "jfk"}}, [Action.KEEP], "unchanged"),
    ],
)
def test_job_when_its_description_changes_then_the_actions_and_their_reason_follow(
    changes: dict[str, Any], actions: list[Action], reason: str
) -> None:
    found = change(job(**changes))
    assert (found.actions, found.reason) == (actions, reason)


def test_change_when_planned_then_names_all_fields_that_differ_with_their_whole_values() -> None:
    where = "delay > 15 AND " + " AND ".join(f"delay <> {number}" for number in range(30))
    found = change(
        job(
            site="cloud",
            operator={**LATE["operator"], "where": where},
            inputs=[*LATE["inputs"], {"site": "jfk", "topic": "site/y"}],
            strategy="general",
        )
    )
    assert [(f.field, f.old, f.new) for f in found.fields] == [
        ("inputs[1]", None, Input(site="jfk", topic="site/y").model_dump()),
        ("operator.where", "delay > 15", where),
        ("site", "jfk", "cloud"),
    ]
    assert change(job(strategy="general")).fields == []


def test_job_when_it_moves_then_its_results_stay_where_they_are() -> None:
    moved = job(site="cloud")
    found = change(moved)
    assert (found.source, found.target) == ("jfk", "cloud")
    assert spelled_out(moved, running(job())["late"]).output_site == "jfk"


def test_job_when_it_moved_without_its_description_then_is_brought_back() -> None:
    found = change(job(), site="cloud")
    assert (found.actions, found.source, found.target) == ([Action.MOVE], "cloud", "jfk")


def test_job_when_its_code_changed_at_the_same_path_then_is_changed() -> None:
    code = job(operator={"kind": "python", "entry": "m:f", "artefact": "code"})
    spec = PipelineSpec(name="delays", jobs=[code])
    mine = {"late": RunningJob(spelled_out(code), "jfk", "delays", artefact="a" * 64)}
    assert [c.actions for c in difference(spec, mine, {}, {"late": "a" * 64})] == [[Action.KEEP]]
    (found,) = difference(spec, mine, {}, {"late": "b" * 64})
    assert (found.actions, found.reason) == ([Action.CHANGE], "other user code")


def reader(reads: str = "late") -> PipelineJob:
    forward = {"kind": "forward"}
    inputs = [{"site": "jfk", "topic": reads}]
    return job(name="reader", inputs=inputs, output={"topic": "read"}, operator=forward)


def reading(*streams: Stream) -> dict[str, RunningJob]:
    """Return `late` and its reader as they run. The reader really reads these streams."""
    mine = running(job(), reader())
    return {**mine, "reader": replace(mine["reader"], reads=frozenset(streams))}


def test_reader_when_it_missed_a_writer_of_its_topic_then_the_next_apply_tells_it() -> None:
    second = job(name="second")
    spec = PipelineSpec(name="delays", jobs=[job(), second, reader()])
    mine = {**reading(Stream("late", "results")), **running(second)}
    assert {c.job: c.actions for c in difference(spec, mine, {})} == {
        "late": [Action.KEEP],
        "second": [Action.KEEP],
        "reader": [Action.REDIRECT],
    }


def test_reader_when_its_writer_went_on_in_another_stream_then_follows_it() -> None:
    spec = PipelineSpec(name="delays", jobs=[job(), reader()])
    kept = [c.actions for c in difference(spec, reading(Stream("late", "results")), {})]
    assert kept == [[Action.KEEP], [Action.KEEP]]
    stale = {c.job: c.actions for c in difference(spec, reading(), {})}
    assert stale == {"late": [Action.KEEP], "reader": [Action.REDIRECT]}


@pytest.mark.parametrize(
    ("topic", "output"),
    [
        ("late", {"topic": "late", "dead_letter": "refused"}),
        ("late/rejected", {"topic": "very-late", "dead_letter": "late/rejected"}),
    ],
)
def test_reader_when_the_other_topic_of_its_writer_changes_then_follows_to_the_other_stream(
    topic: str, output: dict[str, str]
) -> None:
    spec = PipelineSpec(name="delays", jobs=[job(output=output), reader(topic)])
    found = {c.job: c for c in difference(spec, running(job(), reader(topic)), {})}
    assert found["late"].actions == found["reader"].actions == [Action.REDIRECT]
    assert found["reader"].after == ["late"], "it reads the old stream to its end"
    assert "into another stream" in found["reader"].reason


@pytest.mark.parametrize(("start", "waits_for"), [("earliest", []), ("latest", ["reader"])])
def test_writer_when_its_new_reader_begins_with_the_earliest_then_does_not_wait_for_it(
    start: str, waits_for: list[str]
) -> None:
    reads = [{"site": "jfk", "topic": "late", "start": start}]
    reader = job(name="reader", inputs=reads, output={"topic": "read"})

    planned = difference(PipelineSpec(name="delays", jobs=[job(), reader]), {}, {})

    assert {change.job: change.after for change in planned} == {"late": waits_for, "reader": []}


def test_version_when_its_output_sites_are_pinned_then_a_rollback_finds_them_again() -> None:
    first = pinned(PipelineSpec(name="delays", jobs=[job()]), {})
    elsewhere = running(job(output={"site": "cloud", "topic": "late"}))
    (back,) = difference(first, elsewhere, {})
    assert back.actions == [Action.REDIRECT]
    (unpinned,) = difference(PipelineSpec(name="delays", jobs=[job()]), elsewhere, {})
    assert unpinned.actions == [Action.KEEP]


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ("speck/listing-1.yaml", "speck/listing-2.yaml", ("a", "b", "c", "c2", "d")),
        (
            "pipelines/delays-1.yaml",
            "pipelines/delays-2.yaml",
            ("clean-jfk", "late-jfk", "forward-jfk", "plausible-jfk", "hourly-jfk"),
        ),
    ],
)
def test_listings_when_applied_one_after_the_other_then_only_what_differs_is_touched(
    before: str, after: str, names: tuple[str, str, str, str, str]
) -> None:
    first, second = example(before), example(after)
    mine = running(*first.jobs)
    sites = {status.site: SiteFacts(up=True) for status in SITES}
    assert problems(first, sites=sites, mine={}, others={}) == []
    assert problems(second, sites=sites, mine=mine, others={}) == []
    a, b, c, c2, d = names
    found = {x.job: x for x in difference(second, mine, {})}
    assert {name: x.actions for name, x in found.items()} == {
        a: [Action.KEEP],
        b: [Action.REMOVE],
        c: [Action.REDIRECT],
        c2: [Action.ADD],
        d: [Action.REDIRECT, Action.MOVE],
    }
    assert f"written by {c2}" in found[d].reason
    assert (found[c].after, found[c2].after, found[d].after) == ([], [], [c])


def test_speck_examples_when_their_code_is_looked_up_then_every_entry_is_there() -> None:
    code = (EXAMPLES / "speck" / "code" / "stages.py").read_text()
    operators = [j.operator for n in (1, 2) for j in example(f"speck/listing-{n}.yaml").jobs]
    assert operators
    for operator in operators:
        assert isinstance(operator, Python)
        assert operator.artefact == "code"
        assert f"def {operator.entry.removeprefix('stages:')}(" in code


def test_order_when_changes_wait_for_each_other_then_is_refused() -> None:
    planned = [
        PlannedChange(job=name, actions=[Action.ADD], reason="new", after=[after])
        for name, after in (("a", "b"), ("b", "a"))
    ]
    with pytest.raises(TowpathError) as refused:
        in_order(planned)
    assert (refused.value.detail.code, refused.value.detail.value) == (ErrorCode.INVALID, ["a", "b"])


def test_makespan_when_changes_depend_then_only_the_others_run_side_by_side() -> None:
    planned = [
        PlannedChange(job=name, actions=[Action.ADD], reason="new", after=after, predicted_s=seconds)
        for name, after, seconds in (("a", [], 3.0), ("b", ["a"], 2.0), ("c", [], 4.0))
    ]
    assert makespan_s(planned, 1) == 9.0
    assert makespan_s(planned, 2) == 5.0
    assert makespan_s([], 2) == 0.0


def test_fields_when_lists_and_mappings_grow_or_shrink_then_what_is_gone_is_absent() -> None:
    two = job(inputs=[*LATE["inputs"], {"site": "jfk", "topic": "site/y"}])
    paths = [(f.path, str(f).endswith("→ (absent)")) for f in field_changes(two, job())]
    assert paths == [("inputs[1]", True)]
