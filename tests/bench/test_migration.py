"""The figures of the migration benchmarks are right. Run with `pytest tests/bench`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import migration_distinct
import migration_grid
import migration_measures
import migration_pictures
import reports
from benchmark import Scale
from figures import Case, Measured
from load import LoadReport
from migration_arrivals import Arrivals, distribution, recorded
from migration_course import Course, Move, Wish
from migration_overhead import StoredMessages, overhead
from migration_state import LATER_SHARE, shipment
from migration_stateful import truth_of
from migration_strategies import title
from migration_usage import Sample, cpu_s, memory_mb, owner_of
from migration_workload import expected_windows

from towpath.checker.identity import Unreadable, WindowIdentity
from towpath.checker.verdict import Verdict
from towpath.contracts.commands import (
    ConsistencyCheck,
    JournalEntry,
    MigrationFigures,
    OperationKind,
    OperationState,
    OperationView,
    StrategyName,
)
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import Forward

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HANDOVER = Wish(StrategyName.HANDOVER)


def arrivals(*received: float, size_s: float = 1.0) -> Arrivals:
    """Results of ten events that come at these times, each 0.5 s late, each of the window before."""
    times = np.array(received, float)
    return Arrivals(
        received=times,
        latencies_s=np.full(len(times), 0.5),
        windows=(times // size_s).astype(np.int64),
        events=np.full(len(times), 10),
        sites=np.array(["jfk"] * len(times)),
    )


def move(begin: float, end: float, wish: Wish = HANDOVER, **fields: object) -> Move:
    """A migration that was completed, unless `fields` say otherwise."""
    rounds = fields.pop("round_bytes", [])
    figures = MigrationFigures(total_s=end - begin, downtime_s=0.0, round_bytes=rounds)  # type: ignore[arg-type]
    view = {
        "operation": "m1",
        "kind": OperationKind.MIGRATE,
        "job": "a",
        "state": OperationState.COMPLETED,
        "begun_at": EPOCH + timedelta(seconds=begin),
        "ended_at": EPOCH + timedelta(seconds=end),
        "figures": figures,
        **fields,
    }
    return Move(wish, OperationView.model_validate(view))


def course(results: Arrivals, *moves: Move, verdict: Verdict | None = None, loaded: float = 100.0) -> Course:
    job = JobSpec(
        name="a",
        site="jfk",
        inputs=[Input(site="jfk", topic="site/x")],
        output=Output(topic="y"),
        operator=Forward(),
    )
    samples = [Sample(float(at), 2.0 * at, 100.0 + at, 1_000 * at) for at in range(101)]
    return Course(
        job=job,
        size_s=1.0,
        moves=list(moves),
        arrivals=results,
        verdict=verdict or Verdict(),
        usage={"jfk": samples, "services": samples},
        loaded=(0.0, loaded),
        sent=LoadReport(),
    )


def test_largest_gap_when_results_pause_in_a_migration_then_the_whole_pause_counts():
    seen = arrivals(1, 2, 3, 7, 8)
    assert seen.largest_gap_s(4, 5) == 4
    assert seen.largest_gap_s(1.5, 1.7) == 1


def test_largest_gap_when_results_do_not_come_back_then_it_is_unknown_rather_than_small():
    assert arrivals(1, 2, 3).largest_gap_s(2.5, 4) is None
    assert arrivals(3, 4).largest_gap_s(2, 3.5) is None
    assert arrivals().largest_gap_s(0, 1) is None


def test_usual_interval_when_many_keys_come_together_then_windows_are_counted_not_results():
    seen = arrivals(1.0, 1.01, 1.02, 2.0, 2.01, 3.0, 3.02)
    assert seen.usual_interval_s([(0, 10)], 1.0) == pytest.approx(1.0)


def test_usual_interval_when_nothing_moved_only_between_migrations_then_pauses_in_them_are_left_out():
    seen = arrivals(1, 2, 3, 13, 14, 15)
    assert seen.usual_interval_s([(0, 3.5), (12, 16)], 1.0) == 1


def test_latency_and_throughput_when_asked_for_intervals_then_only_their_results_count():
    seen = arrivals(*range(10))
    assert seen.latency([(0, 5)], 50) == 0.5
    assert seen.latency([(20, 30)], 50) is None
    assert seen.events_per_s([(0, 2), (4, 6)]) == 10


def test_distribution_when_values_are_drawn_then_it_ends_at_one():
    assert distribution([3.0, 1.0, 2.0, 2.0]) == ([1.0, 2.0, 2.0, 3.0], [0.25, 0.5, 0.75, 1.0])


def test_recorded_results_when_read_back_then_time_and_body_are_there_and_rubbish_shows(tmp_path):
    body = (
        b'{"job":"a","site":"jfk","epoch":1,"serial":7,"stored_at":"1970-01-01T00:00:01Z",'
        b'"after":3,"through":7,"count":4,"values":{"events":4}}'
    )
    file = tmp_path / "results"
    file.write_bytes(b"2.500000 " + body + b"\n3.000000 rubbish\n")
    good, bad = recorded(file, "y")
    assert isinstance(bad.identity, Unreadable)
    seen = Arrivals.of([(good.received_at, good.body)])
    assert (seen.latencies_s.tolist(), seen.windows.tolist(), seen.events.tolist()) == ([1.5], [7], [4])


def test_course_when_it_moved_twice_then_before_and_after_share_the_pauses():
    seen = course(arrivals(2, 50, 90), move(10, 12), move(20, 24), loaded=40)
    assert seen.quiet == [(2, 10), (12, 20), (24, 40)]
    assert seen.before == [(6, 10), (16, 20)]
    assert seen.after == [(12, 16), (24, 32)]


def test_costs_when_one_of_two_was_rolled_back_then_totals_are_of_the_other_only():
    back = move(20, 60, state=OperationState.ROLLED_BACK, figures=None)
    found = migration_measures.costs(course(arrivals(*range(100)), move(10, 12), back))
    assert (found["migrations"], found["rolled back"], found["total, s"]) == (2, 1, 2)


def test_costs_when_results_stop_for_three_intervals_then_the_gap_says_so():
    times = [*range(12), *range(15, 100)]
    found = migration_measures.costs(course(arrivals(*times), move(10, 20)))
    assert found["largest gap, s"] == 4
    assert found["largest gap ÷ usual interval"] == 4


def test_costs_when_one_gap_is_unknown_then_the_largest_is_unknown():
    seen = course(arrivals(*range(30)), move(10, 12), move(40, 42))
    assert migration_measures.largest_gap_s(seen) is None


def test_faults_when_only_the_order_is_wrong_then_they_count():
    assert course(arrivals(1), verdict=Verdict(out_of_order=2)).faults == 2
    assert course(arrivals(1), verdict=Verdict(redelivered=2, late=1)).faults == 0


@pytest.mark.parametrize(
    ("value", "reference", "expected"),
    [(3.0, 2.0, 1.5), (3.0, 0, None), (None, 2.0, None), (3.0, None, None)],
)
def test_ratio_when_a_figure_is_missing_or_zero_then_there_is_none(value, reference, expected):
    assert migration_measures.ratio(value, reference) == expected


def test_resources_when_cpu_grows_steadily_then_cores_and_seconds_agree():
    found = migration_measures.resources(course(arrivals(2), move(10, 14)))
    assert found["jfk: CPU during, cores"] == 2
    assert found["jfk: CPU of a migration, s"] == 8
    assert found["jfk: memory during, MB"] == 113


def test_cpu_when_an_interval_ends_between_samples_then_it_is_interpolated():
    samples = [Sample(0.0, 0.0, 1.0, 0), Sample(2.0, 4.0, 1.0, 0)]
    assert cpu_s(samples, [(0.5, 1.0)]) == pytest.approx(1.0)
    assert cpu_s([], [(0.0, 1.0)]) == 0.0
    assert memory_mb(samples, [(0.5, 1.0)]) is None


def test_owner_when_processes_are_nested_then_the_nearest_root_has_it():
    parents = {30: 20, 20: 10, 10: 1, 40: 10, 50: 1, 60: 61, 61: 60}
    roots = {10: "services", 20: "jfk"}
    assert [owner_of(pid, parents, roots) for pid in (30, 40, 50, 60)] == ["jfk", "services", None, None]


def test_stored_messages_when_streams_come_and_go_then_only_new_messages_count():
    stored = StoredMessages()
    old, shadow, mirror = ("jfk", "IN", "1"), ("jfk", "SHADOW", "2"), ("cloud", "MIRROR", "3")
    stored.take(0.0, {old: (0, 1_000)})
    stored.take(1.0, {old: (0, 1_100), shadow: (0, 5), mirror: (1_050, 1_100)})
    stored.take(2.0, {old: (0, 1_200), mirror: (1_050, 1_200)})
    assert stored.totals == [0, 155, 355]
    assert stored.per_s((1.0, 2.0)) == 200
    assert stored.per_s((-5.0, 2.0)) is None


def test_overhead_when_the_divert_is_in_the_journal_then_it_lies_between_its_steps():
    entries = [
        JournalEntry(step="divert", phase="confirmed", at=EPOCH + timedelta(seconds=11)),
        JournalEntry(step="remove-divert", phase="begun", at=EPOCH + timedelta(seconds=15)),
    ]
    seen = course(arrivals(*range(100)), move(10, 16, journal=entries))
    found = overhead(seen, StoredMessages())
    assert (found["diverted, s"], found["CPU diverted, cores"], found["kB/s diverted"]) == (4, 4, 2)
    assert "kB/s diverted" not in overhead(course(arrivals(*range(100)), move(10, 16)), StoredMessages())


def test_shipment_when_little_changed_then_the_later_rounds_are_a_small_share():
    found = shipment(course(arrivals(1), move(10, 12, round_bytes=[1_000_000, 9_000, 1_000])), 1)
    assert (found["first round, MB"], found[LATER_SHARE], found["rounds"]) == (1, 1, 3)
    assert shipment(course(arrivals(1), move(10, 12)), 1)[LATER_SHARE] is None


def test_truth_of_a_stateful_job_when_windows_are_open_then_they_are_not_expected():
    events = pd.DataFrame(
        {
            "at": [0, 100, 200, 1_000_000, 12_000_000],
            "sensor": [1, 1, 2, 1, 0],
            "token": [7, 7, 8, 9, 0],
        }
    )
    truth = truth_of(events, "a", 1.0, 10.5)
    assert {
        (i.start.second, dict(i.key)["sensor"]): v for i, v in truth.items() if isinstance(i, WindowIdentity)
    } == {
        (0, "s00001"): {"events": 2, "tokens": 1},
        (0, "s00002"): {"events": 1, "tokens": 1},
    }


@pytest.mark.parametrize("size", [250, 1_099, 1_100, 1_101])
def test_tokens_when_reports_are_made_in_other_portions_then_are_the_same(size: int):
    def tokens(*portions: int) -> list[bytes]:
        random = np.random.default_rng(0)
        rows = [np.tile(np.frombuffer(reports.template(size), np.uint8), (count, 1)) for count in portions]
        for portion in rows:
            reports.patch_token(portion, random)
        return [row.tobytes() for portion in rows for row in portion]

    assert tokens(7) == tokens(1, 3, 2, 1)


def test_truth_of_distinct_reports_when_the_backlog_comes_again_then_none_of_it_is_expected():
    every, change = migration_distinct.EVERY, migration_distinct.FIRST_CHANGE
    events = pd.DataFrame(
        {
            "at": [1_000, 1_900, 2_000, 2_100, 2_200, 2_300],
            "number": [5, 6, 7, every, change, change + 1],
            "is_shared": [True, True, True, False, False, False],
        }
    )
    truth = migration_distinct.truth_of(events, "a")
    number = change + reports.FIRST_NUMBER
    assert [values["report"] for values in truth.values()] == [
        "1000/200",
        "1800/200",
        "2000/200",
        f"2200/{number}",
    ]
    last = [*truth][-1]
    assert isinstance(last, WindowIdentity)
    assert last.end - last.start == timedelta(milliseconds=number)


def test_expected_windows_when_made_of_counts_then_they_are_what_the_checker_reads():
    ((identity, values),) = expected_windows("a", {(3_000_000, "s00001"): 4}, 2.0).items()
    assert isinstance(identity, WindowIdentity)
    assert (identity.start, identity.end) == (EPOCH + timedelta(seconds=3), EPOCH + timedelta(seconds=5))
    assert (identity.key, values) == ((("sensor", "s00001"),), {"events": 4})


def test_grid_when_measured_as_a_whole_then_it_has_all_points_and_both_checks():
    whole = migration_grid.points(Scale.FULL)
    assert len(whole) == 30
    assert all(len(wishes) == 6 for _, wishes in whole)


def test_grid_when_reduced_then_the_points_with_targets_are_in_it():
    aimed = {
        (point, wish)
        for point, wishes in migration_grid.points(Scale.DEFAULT)
        for wish in wishes
        if migration_grid.targets(*point, wish)
    }
    assert {(point, wish.check) for point, wish in aimed} == {
        ((100, 2.0), ConsistencyCheck.RESULTS),
        ((100, 15.0), ConsistencyCheck.SERIALS),
    }


def test_title_when_the_check_is_by_results_then_it_names_the_factor():
    assert title(HANDOVER) == "handover"
    assert title(Wish(StrategyName.PARALLEL, ConsistencyCheck.RESULTS, 5)) == "parallel (results, S 5)"


def test_upright_table_when_shown_then_cases_are_its_columns():
    measured = Measured("b", "t", cases=[Case("one", {"x": 1, "y": 2}), Case("two", {"x": 3})], upright=True)
    table = measured.table()
    assert [column.header for column in table.columns] == ["", "one", "two"]
    assert table.row_count == 2


def test_pictures_when_drawn_then_files_are_there_also_without_completed_migrations(tmp_path):
    whole = course(arrivals(*range(100)), move(10, 14))
    back = course(arrivals(*range(100)), move(10, 14, state=OperationState.ROLLED_BACK, figures=None))
    migration_pictures.draw_courses(tmp_path / "c.png", "job", {"handover": whole, "parallel": back})
    migration_pictures.draw_totals(tmp_path / "t.png", "job", {"handover": whole, "parallel": back})
    migration_pictures.draw_heat_map(tmp_path / "h.png", "map", [100], [5.0, 15.0], {(100, 5.0): 3.0})
    assert all((tmp_path / name).stat().st_size > 1_000 for name in ("c.png", "t.png", "h.png"))
