"""The choice of a migration's strategy, and the forecast of its cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from running.operator_examples import EXAMPLES
from towpath.contracts.commands import (
    ConsistencyCheck,
    ForecastMigration,
    MigrateJob,
    MigrationFigures,
    MigrationForecast,
    OperationKind,
    StrategyName,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Input, JobSpec
from towpath.coordinator.migrations.forecasts import Cost, costs_of, expected
from towpath.coordinator.migrations.planning import check_comparison, check_time
from towpath.protocols.choice import ASKED_FOR, choose
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.protocols.strategies import handover
from towpath.protocols.table import strategies

RESTART, GENERAL = StrategyName.RESTART, StrategyName.GENERAL
PARALLEL, HANDOVER, AUTO = StrategyName.PARALLEL, StrategyName.HANDOVER, StrategyName.AUTO
SERIALS, RESULTS, IDENTITY = ConsistencyCheck.SERIALS, ConsistencyCheck.RESULTS, ConsistencyCheck.IDENTITY


def spec(kind: str, inputs: int = 1) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "counts",
            "site": "jfk",
            "inputs": [{"site": "jfk", "topic": f"departures/{number}"} for number in range(inputs)],
            "output": {"topic": "departures/counts"},
            "operator": {"kind": kind, **EXAMPLES[kind]},
        }
    )


THINNED = Input.model_validate({"site": "jfk", "topic": "departures/0", "thinning": {}})


def refusal(job: JobSpec, wanted: StrategyName) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        choose(job, wanted)
    return refused.value


@pytest.mark.parametrize(
    ("kind", "strategy", "because"),
    [
        ("processing_window", PARALLEL, "no state is carried"),
        ("python", GENERAL, "user code"),
        *(
            (kind, HANDOVER, "no downtime")
            for kind in EXAMPLES
            if kind not in ("processing_window", "python")
        ),
    ],
)
def test_strategy_when_left_to_towpath_then_suits_the_operator_and_says_why(
    kind: str, strategy: StrategyName, because: str
) -> None:
    chosen, reason = choose(spec(kind), AUTO)
    assert chosen.name == strategy
    assert because in reason


def test_strategy_when_processing_windows_have_several_inputs_then_their_job_is_paused() -> None:
    assert choose(spec("processing_window", inputs=2), AUTO)[0].name == GENERAL


@pytest.mark.parametrize(
    ("event_time", "watermark_s", "strategy"),
    [("departed_at", 0.0, GENERAL), ("departed_at", 5.0, HANDOVER), (None, 0.0, HANDOVER)],
)
def test_strategy_when_windows_wait_for_no_late_event_then_their_job_is_paused(
    event_time: str | None, watermark_s: float, strategy: StrategyName
) -> None:
    operator = {
        "kind": "window",
        **EXAMPLES["window"],
        "event_time": event_time,
        "watermark_s": watermark_s,
    }
    job = JobSpec.model_validate(spec("window").model_dump(mode="json") | {"operator": operator})
    chosen, reason = choose(job, AUTO)
    assert chosen.name == strategy
    assert chosen.name == HANDOVER or "watermark_s is 0" in reason


@pytest.mark.parametrize(("trigger_s", "strategy"), [(20.0, HANDOVER), (21.0, GENERAL), (3600.0, GENERAL)])
def test_strategy_when_a_job_computes_rarely_then_it_is_paused_in_between(
    trigger_s: float, strategy: StrategyName
) -> None:
    chosen, reason = choose(spec("filter").model_copy(update={"trigger_s": trigger_s}), AUTO)
    assert chosen.name == strategy
    assert chosen.name == HANDOVER or f"every {trigger_s:g} s" in reason


@pytest.mark.parametrize(
    ("trigger_s", "within_s"), [(0.0, 80.0), (1.0, 80.0), (60.0, 360.0), (3600.0, 21600.0)]
)
def test_handover_when_triggers_are_far_apart_then_waits_for_six_of_them(
    trigger_s: float, within_s: float
) -> None:
    entry = JobEntry.model_validate(
        {
            "spec": spec("filter").model_copy(update={"trigger_s": trigger_s}),
            "site": "jfk",
            "epoch": 1,
            "inputs": [],
            "output": {"site": "jfk", "stream": "OUT_a", "topic": "a", "rejected_topic": "a/rejected"},
        }
    )
    opened = {"open-shadow": {"output_serial": 0}}
    asked = record(HANDOVER, None).model_copy(update={"before": entry, "after": entry, "facts": opened})
    assert handover.await_consistency.command(asked).within_s == within_s
    assert handover.await_consistency.within_s(asked) == within_s + 5.0


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("wanted", [RESTART, GENERAL])
def test_strategy_when_it_stops_the_source_then_works_for_every_operator(
    kind: str, wanted: StrategyName
) -> None:
    assert choose(spec(kind, inputs=2), wanted) == (strategies()[wanted], ASKED_FOR)


@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if kind != "processing_window"])
def test_parallel_when_asked_for_without_processing_windows_then_is_refused(kind: str) -> None:
    detail = refusal(spec(kind), PARALLEL).detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "strategy", "parallel")
    twin = [] if kind == "python" else ["twin"]
    assert detail.allowed == ["general", "handover", "restart", *twin, "auto"]


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (spec("processing_window"), "at different places"),
        (spec("python"), "user code"),
        (spec("window").model_copy(update={"inputs": [THINNED]}), "how far"),
    ],
    ids=["processing-window", "user-code", "thinned"],
)
def test_twin_when_two_runs_may_differ_then_is_refused(job: JobSpec, why: str) -> None:
    error = refusal(job, StrategyName.TWIN).detail
    assert (error.code, error.field, error.value) == (ErrorCode.NOT_ALLOWED, "strategy", "twin")
    assert why in error.message


def test_parallel_when_asked_for_with_several_inputs_then_is_refused() -> None:
    detail = refusal(spec("processing_window", inputs=2), PARALLEL).detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "strategy", "parallel")
    assert detail.allowed == ["general", "restart", "auto"]


def test_handover_when_asked_for_with_processing_windows_then_is_refused() -> None:
    detail = refusal(spec("processing_window"), HANDOVER).detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "strategy", "handover")
    assert detail.allowed == ["general", "parallel", "restart", "auto"]


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("inputs", [1, 2])
def test_strategy_when_left_to_towpath_then_is_one_that_may_be_asked_for(kind: str, inputs: int) -> None:
    job = spec(kind, inputs)
    chosen, _ = choose(job, AUTO)
    assert choose(job, chosen.name) == (chosen, ASKED_FOR)


def cost(total_s: float, state_bytes: int = 0, job: str = "counts") -> Cost:
    return Cost(job, total_s, state_bytes)


@pytest.mark.parametrize(
    ("strategy", "state_bytes", "total_s"),
    [
        (RESTART, 0, 2.0),
        (GENERAL, 0, 2.5),
        (GENERAL, 100_000_000, 12.5),
        (HANDOVER, 0, 5.0),
        (PARALLEL, 0, 3.0),
    ],
)
def test_forecast_when_nothing_ever_moved_then_is_that_of_a_plain_machine(
    strategy: StrategyName, state_bytes: int, total_s: float
) -> None:
    found, basis = expected([], "counts", strategies()[strategy], state_bytes)
    assert found == pytest.approx(total_s)
    assert "plain machine" in basis


def test_forecast_when_two_runs_wait_for_each_other_then_that_counts_until_there_is_a_migration() -> None:
    assert expected([], "counts", strategies()[PARALLEL], 0, waiting_s=120.0)[0] == pytest.approx(123.0)
    assert expected([cost(4.0)], "counts", strategies()[PARALLEL], 0, waiting_s=120.0)[0] == pytest.approx(
        4.0
    )


def test_forecast_when_the_job_has_moved_before_then_others_do_not_count() -> None:
    costs = [cost(30.0, job="other"), cost(4.0), cost(30.0, job="other")]
    found, basis = expected(costs, "counts", strategies()[GENERAL], 0)
    assert found == pytest.approx(4.0)
    assert basis == "the last 1 general migration(s) of counts"
    assert expected(costs, "new", strategies()[GENERAL], 0)[0] == pytest.approx(30.0)


def test_forecast_when_state_has_grown_then_grows_with_it() -> None:
    found, _ = expected([cost(3.0, 1_000_000)], "counts", strategies()[GENERAL], 21_000_000)
    assert found == pytest.approx(5.0)


def test_forecast_when_earlier_moves_differ_in_size_then_learns_how_fast_state_crosses() -> None:
    at_5_mb_per_s = [cost(2.0 + size / 5e6, size) for size in (0, 50_000_000, 100_000_000)]
    found, _ = expected(at_5_mb_per_s, "counts", strategies()[GENERAL], 200_000_000)
    assert found == pytest.approx(42.0)


def test_forecast_when_one_move_was_an_outlier_then_is_not_moved_by_it() -> None:
    costs = [cost(2.0 + size / 5e6, size) for size in range(0, 80_000_000, 10_000_000)]
    stuck = cost(600.0, 40_000_000)
    found, _ = expected([stuck, *costs], "counts", strategies()[GENERAL], 100_000_000)
    assert found == pytest.approx(22.0, rel=0.05)


def test_forecast_when_less_state_never_took_longer_then_is_never_negative() -> None:
    found, _ = expected([cost(0.1, 50_000_000), cost(0.1, 60_000_000)], "counts", strategies()[GENERAL], 0)
    assert found >= 0


FORECAST = MigrationForecast(
    job="counts",
    source="jfk",
    target="cloud",
    strategy=HANDOVER,
    reason=ASKED_FOR,
    total_s=9.5,
    state_bytes=1_000,
    basis="the last 1 handover migration(s) of counts",
)


def test_time_limit_when_the_forecast_is_longer_then_the_refusal_names_both() -> None:
    with pytest.raises(TowpathError) as refused:
        check_time(6.0, FORECAST)
    detail = refused.value.detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "at_most_s", 6.0)
    for part in ("9.5 s", "may take 6 s", FORECAST.basis, "runs on at jfk"):
        assert part in detail.message


@pytest.mark.parametrize("at_most_s", [None, 9.5, 60.0])
def test_time_limit_when_the_forecast_is_not_longer_then_the_migration_begins(
    at_most_s: float | None,
) -> None:
    check_time(at_most_s, FORECAST)


def record(strategy: StrategyName, figures: MigrationFigures | None) -> OperationRecord:
    return OperationRecord(
        id="m1",
        command="c1",
        kind=OperationKind.MIGRATE,
        job="counts",
        strategy=strategy,
        old_epoch=1,
        new_epoch=2,
        begun_at=datetime(2026, 1, 1, tzinfo=UTC),
        figures=figures,
    )


def test_costs_when_a_move_did_not_end_well_or_was_another_strategy_then_do_not_hold_it() -> None:
    figures = MigrationFigures(total_s=3.0, state_bytes=7)
    records = [record(GENERAL, None), record(HANDOVER, figures), record(GENERAL, figures)]
    assert costs_of(records, record(GENERAL, None)) == [cost(3.0, 7)]


def test_costs_when_results_were_compared_otherwise_then_do_not_hold_them() -> None:
    checks = [(SERIALS, 0), (SERIALS, 10), (RESULTS, 0), (RESULTS, 10)]
    moves = [compared(check, factor, total_s) for total_s, (check, factor) in enumerate(checks)]
    assert [c.total_s for c in costs_of(moves, compared(SERIALS, 10))] == [0.0, 1.0]
    assert [c.total_s for c in costs_of(moves, compared(RESULTS, 10))] == [3.0]


def compared(check: ConsistencyCheck, factor: int, total_s: float = 0.0) -> OperationRecord:
    made = record(PARALLEL, MigrationFigures(total_s=total_s))
    return made.model_copy(update={"check": check, "factor": factor})


@pytest.mark.parametrize(
    ("strategy", "given", "field"),
    [
        (PARALLEL, {"check": IDENTITY}, "check"),
        (PARALLEL, {"factor": 0}, "factor"),
        (PARALLEL, {"check": SERIALS, "factor": 5}, "factor"),
        (HANDOVER, {"check": RESULTS}, "check"),
        (GENERAL, {"check": RESULTS, "factor": 5}, "check"),
        (HANDOVER, {"factor": 5}, "factor"),
    ],
)
@pytest.mark.parametrize("command", [MigrateJob, ForecastMigration])
def test_comparison_when_the_migration_would_not_compare_so_then_is_refused(
    command: type[MigrateJob | ForecastMigration], strategy: StrategyName, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(TowpathError) as refused:
        check_comparison(command(job="counts", to="lga", **given), strategies()[strategy])
    detail = refused.value.detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, field, given[field])
    assert detail.allowed


@pytest.mark.parametrize(
    "given", [{}, {"check": SERIALS}, {"check": RESULTS}, {"check": RESULTS, "factor": 0}]
)
def test_comparison_when_the_migration_compares_so_then_is_accepted(given: dict[str, Any]) -> None:
    check_comparison(MigrateJob(job="counts", to="lga", **given), strategies()[PARALLEL])
