"""When a query plans its micro-batches, by a simulated clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from towpath.streams import pacing
from towpath.streams.pacing import SHARES_AFTER_START, Pace


class Clock:
    """Goes on only while someone waits. `events` come at these times."""

    def __init__(self) -> None:
        self.now = 100.0
        self.events: list[float] = []
        self.planned = 0
        self.questions = 0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def backlog(self) -> int:
        self.questions += 1
        return self.waiting

    @property
    def waiting(self) -> int:
        return sum(at <= self.now for at in self.events) - self.planned


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pacing.threading.Condition, "wait", lambda _, seconds: made.wait(seconds))
    return made


def never() -> bool:
    return False


def plan(pace: Pace, clock: Clock, *, at_most: int = 1000, paused: Callable[[], bool] = never) -> int:
    """Plan as the only source of a query. Return the number of events."""
    pace.await_turn("IN", clock.backlog, paused)
    count = min(clock.waiting, at_most)
    clock.planned += count
    pace.planned("IN", clock.backlog, some=count > 0, all_of_it=clock.waiting == 0)
    return count


def begun(trigger_s: float, clock: Clock, *, bursts: bool = False) -> Pace:
    """Return the pace of a run that has had its first micro-batches, the last one at 100 s."""
    pace = Pace(trigger_s, bursts=bursts, clock=clock)
    pauses = [share + (pacing.BURST_LOOK if bursts else 0) for share in SHARES_AFTER_START]
    clock.now -= trigger_s * sum(pauses)
    for _ in range(1 + len(pauses)):
        clock.events.append(clock.now)
        assert plan(pace, clock) == 1
    assert clock.now == pytest.approx(100.0)
    return pace


def test_first_batches_of_a_run_when_events_wait_then_follow_each_other_sooner_than_later_ones(
    clock: Clock,
) -> None:
    pace = Pace(4.0, clock=clock)
    begun_at = []
    for _ in range(6):
        clock.events += [clock.now]
        plan(pace, clock)
        begun_at.append(clock.now)
    assert begun_at == pytest.approx([100.0, 100.0, 101.0, 103.0, 107.0, 111.0])


def test_next_batch_when_nothing_is_left_to_close_then_waits_for_events(clock: Clock) -> None:
    pace = Pace(0.25, patient=True, clock=clock)
    clock.events += [100.0, 105.0]
    assert plan(pace, clock) == 1
    assert plan(pace, clock) == 1
    assert 105.0 <= clock.now < 105.5


def test_batch_when_events_wait_then_begins_an_interval_after_the_last_one(clock: Clock) -> None:
    pace = begun(3.0, clock)
    clock.events += [100.5, 101.0]
    assert plan(pace, clock) == 2
    assert clock.now == 103.0


def test_batch_when_it_is_due_and_there_are_no_events_then_begins_with_the_first(clock: Clock) -> None:
    pace = begun(3.0, clock)
    clock.events += [103.5]
    assert plan(pace, clock) == 1
    assert 103.5 <= clock.now < 103.9


@pytest.mark.parametrize("first", [102.9, 103.4])
def test_batch_when_another_job_still_publishes_its_results_then_waits_for_the_last(
    clock: Clock, first: float
) -> None:
    pace = begun(3.0, clock, bursts=True)
    clock.events += [first + n / 1000 for n in range(200)]
    assert plan(pace, clock) == 200
    assert clock.now < first + 0.6


def test_batch_when_results_of_another_job_never_cease_then_waits_for_a_fifth_of_the_interval(
    clock: Clock,
) -> None:
    pace = begun(3.0, clock, bursts=True)
    clock.events += [100.5 + n / 100 for n in range(1000)]
    plan(pace, clock)
    assert clock.now == pytest.approx(103.6)


def test_next_batch_when_one_had_to_wait_for_events_then_is_an_interval_after_it(clock: Clock) -> None:
    pace = begun(3.0, clock)
    clock.events += [103.5, 104.0]
    plan(pace, clock)
    began = clock.now
    assert plan(pace, clock) == 1
    assert clock.now == pytest.approx(began + 3.0)


def test_batch_when_no_events_come_then_spark_gets_a_turn_soon_after_it_was_due(clock: Clock) -> None:
    pace = begun(3.0, clock)
    assert plan(pace, clock) == 0
    assert clock.now == pytest.approx(104.0)


def test_next_batch_when_the_last_left_events_then_begins_at_once(clock: Clock) -> None:
    pace = begun(3.0, clock)
    clock.events += [101.0] * 25
    assert plan(pace, clock, at_most=10) == 10
    assert plan(pace, clock, at_most=10) == 10
    assert plan(pace, clock, at_most=10) == 5
    assert clock.now == 103.0
    clock.events += [103.0]
    assert plan(pace, clock) == 1
    assert clock.now == 106.0


def test_stream_when_silent_for_long_then_is_asked_seldom(clock: Clock) -> None:
    pace = begun(1.0, clock)
    while clock.now < 160.0:
        assert plan(pace, clock) == 0
    asked, since = clock.questions, clock.now
    while clock.now < since + 10.0:
        plan(pace, clock)
    assert (clock.questions - asked) / (clock.now - since) <= 3


@pytest.mark.parametrize("source", ["IN", "another input"])
def test_pause_when_a_source_is_to_plan_then_it_waits_for_the_end_of_the_run(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    pace = begun(0.0, clock)
    clock.events += [100.0]
    seen = []

    def wait(_: object, seconds: float) -> None:
        clock.wait(seconds)
        seen.append(pace.is_waiting)
        if clock.now > 102.0:
            pace.end()

    monkeypatch.setattr(pacing.threading.Condition, "wait", wait)
    pace.await_turn(source, clock.backlog, lambda: True)
    assert 102.0 < clock.now < 102.6
    assert all(seen)


def test_pause_when_no_one_ends_the_run_then_planning_goes_on_after_seconds(clock: Clock) -> None:
    pace = begun(3600.0, clock)
    pace.await_turn("IN", clock.backlog, lambda: clock.now > 102.0)
    assert clock.now == pytest.approx(102.0 + pacing.HOLD_S, abs=0.5)
    assert not pace.is_waiting


def test_end_of_a_run_when_a_source_waits_then_ends_the_wait(clock: Clock) -> None:
    pace = begun(3600.0, clock)

    def ends_the_run() -> bool:
        if clock.now > 102.0:
            pace.end()
        return False

    pace.await_turn("IN", clock.backlog, ends_the_run)
    assert clock.now < 102.6


@pytest.mark.parametrize("with_news", ["a", "b"])
def test_sources_when_there_are_several_then_one_waits_for_the_events_of_any(
    clock: Clock, with_news: str
) -> None:
    pace, arrives_at = Pace(3.0, clock=clock), 103.3
    comes: list[float]
    news = {name: (lambda name=name: int(name == with_news and clock.now >= comes[0])) for name in "ab"}
    clock.now -= 3.0 * sum(SHARES_AFTER_START)
    comes = [clock.now, arrives_at]
    for _ in range(1 + len(SHARES_AFTER_START)):
        for name in news:
            pace.await_turn(name, news[name], never)
            pace.planned(name, news[name], some=True, all_of_it=True)
    assert clock.now == pytest.approx(100.0)
    comes.pop(0)
    pace.await_turn("b", news["b"], never)
    assert arrives_at <= clock.now < arrives_at + 0.4
    turn = clock.now
    pace.await_turn("a", news["a"], never)
    assert clock.now == turn, "the other source plans for the same micro-batch"


def test_sources_when_one_is_behind_then_the_next_batch_begins_at_once(clock: Clock) -> None:
    pace = Pace(3.0, clock=clock)
    for name, all_of_it in (("a", False), ("b", True)):
        pace.await_turn(name, lambda: 1, never)
        pace.planned(name, lambda: 1, some=True, all_of_it=all_of_it)
    pace.await_turn("a", lambda: 1, never)
    assert clock.now == 100.0


def test_planning_when_no_events_come_then_is_in_vain_more_and_more_seldom_until_there_are_some(
    clock: Clock,
) -> None:
    pace = begun(0.0, clock)

    def waits() -> float:
        before = clock.now
        plan(pace, clock)
        return clock.now - before

    assert [waits() for _ in range(5)] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2], rel=0.15, abs=0.1)
    clock.events.append(clock.now)
    assert waits() < 0.02
    assert waits() == pytest.approx(0.2, abs=0.15)


class WallClock:
    """Goes on with a clock, and can be set."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.ahead = clock, 0.0

    def __call__(self) -> float:
        return self.clock.now + self.ahead


def begun_aligned(clock: Clock, wall_clock: WallClock) -> Pace:
    """Return the pace of windows of 3 s, whose first micro-batch was at 100 s."""
    pace = Pace(3.0, aligned=True, clock=clock, wall_clock=wall_clock)
    plan(pace, clock)
    assert clock.now == 100.0
    return pace


def test_window_when_events_wait_then_begins_at_the_next_multiple_and_without_events_too(
    clock: Clock,
) -> None:
    pace = begun_aligned(clock, WallClock(clock))
    clock.events += [100.5]
    for multiple, events in ((102.0, 1), (105.0, 0), (108.0, 0)):
        assert plan(pace, clock) == events
        assert multiple < clock.now < multiple + 0.1


def test_window_when_the_last_one_took_longer_than_an_interval_then_begins_at_once(clock: Clock) -> None:
    pace = begun_aligned(clock, WallClock(clock))
    clock.now = 104.0
    plan(pace, clock)
    assert clock.now == 104.0
    plan(pace, clock)
    assert 105.0 < clock.now < 105.1


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_window_when_the_wall_clock_was_set_and_is_put_back_then_waits_no_longer_than_an_interval(
    clock: Clock, ahead_s: float
) -> None:
    wall_clock = WallClock(clock)
    pace = begun_aligned(clock, wall_clock)
    for ahead in (ahead_s, 0.0):
        wall_clock.ahead = ahead
        for _ in range(3):
            before = clock.now
            plan(pace, clock)
            assert clock.now - before < 3.1


def test_window_when_the_query_is_paused_then_waits_for_the_end_of_the_run(clock: Clock) -> None:
    pace = begun_aligned(clock, WallClock(clock))
    plan(pace, clock, paused=lambda: clock.now > 100.5)
    assert clock.now > 100.5 + pacing.HOLD_S
