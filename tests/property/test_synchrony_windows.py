"""Any two windowings of one stream, any interleaving: the output is the stream, counted once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from towpath.contracts.migration import Role
from towpath.synchrony.by_results import ByResults
from towpath.synchrony.consistency import Consistency, check, release
from towpath.synchrony.cut import Cut
from towpath.synchrony.decision import Action, AmendResult, DropResult
from towpath.synchrony.logged import LoggedResult
from towpath.synchrony.result import Forwarded, ResultEvent
from towpath.synchrony.synchroniser import Synchroniser

FACTORS = st.sampled_from([0, 0, 1, 2, 3, 5, 8, 1000])


@dataclass(frozen=True)
class Run:
    """Events 1..count, cut into windows by two operators, in the order in which the monitor received them."""

    count: int
    log: list[LoggedResult]

    def thesis(self) -> list[ResultEvent]:
        return [ResultEvent(e.origin, e.through, e.through - e.after) for e in self.log]


@st.composite
def windows(draw: st.DrawFn, after: int, through: int) -> list[tuple[int, int]]:
    """Draw a partition of the serials `after < serial <= through` into windows."""
    longest = draw(st.sampled_from([1, 2, 3, 5, 9]))
    ends = [after]
    while ends[-1] < through:
        ends.append(min(through, ends[-1] + draw(st.integers(1, longest))))
    return list(pairwise(ends))


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Draw a course in which both operators read to the end. Either may lag, by a little or by everything."""
    count = draw(st.sampled_from([1, 2, 3, 5, 8, 13, 20, 30, 40]))
    left = {
        Role.SOURCE: draw(windows(0, count)),
        Role.TARGET: draw(windows(draw(st.integers(0, count - 1)), count)),
    }
    lag = {role: draw(st.sampled_from([0, 0, 2, 5, 40])) for role in left}
    log = []
    while any(left.values()):
        due = {role: rest[0][1] + draw(st.integers(0, lag[role])) for role, rest in left.items() if rest}
        origin = min(due, key=lambda role: due[role])
        after, through = left[origin].pop(0)
        log.append(LoggedResult(origin, after, through, 3 * len(log), f"{origin}-{through}"))
    return Run(count, log)


def checked(run: Run, factor: int) -> tuple[Consistency, list[Forwarded]]:
    state, out = Consistency(factor), []
    for event in run.thesis():
        state, outputs = check(state, event)
        out += outputs
    return state, out


@given(run=runs(), factor=FACTORS)
def test_check_when_synchronised_then_every_event_is_counted_once(run: Run, factor: int) -> None:
    state, out = checked(run, factor)
    if state.agreement is None:
        return
    assert sum(output.result.value for output in out) == run.count
    serials = [output.result.serial for output in out]
    assert all(earlier < later for earlier, later in pairwise([0, *serials]))
    assert all(b.result.serial - a.result.serial == b.result.value for a, b in pairwise(out))
    altered = [output for output in out if output.result != output.arrived]
    assert len(altered) <= (0 if factor == 0 else 1)
    assert all(abs(a.result.value - a.arrived.value) <= factor for a in altered)


@given(run=runs(), factor=FACTORS)
def test_check_when_synchronised_then_the_results_swallowed_follow_the_agreement_at_once(
    run: Run, factor: int
) -> None:
    state, out = checked(run, factor)
    if state.agreement is None:
        return
    targets = [output.arrived for output in out if output.arrived.origin is Role.TARGET]
    decided = state.agreement.last.serial - max(state.agreement.offset, 0)
    swallowed = [
        event
        for event in run.thesis()
        if event.origin is Role.TARGET and event.serial > decided and event not in targets
    ]
    assert all(event.serial <= state.agreement.last.serial for event in swallowed)
    assert sum(event.value for event in swallowed) <= factor


@given(run=runs(), factor=FACTORS)
def test_check_when_never_synchronised_then_the_output_is_the_sources_unaltered(
    run: Run, factor: int
) -> None:
    state, out = checked(run, factor)
    if state.agreement is not None:
        return
    out += release(state)[1]
    assert [output.result for output in out] == [e for e in run.thesis() if e.origin is Role.SOURCE]


def acted(synchroniser: Synchroniser, log: list[LoggedResult]) -> list[Action]:
    return [action for event in log for action in synchroniser.take(event)]


def covered(actions: list[Action]) -> list[tuple[int, int]]:
    """Return the intervals that reach the subscribers, in order."""
    return [
        (action.after, action.through)
        if isinstance(action, AmendResult)
        else (action.event.after, action.event.through)
        for action in actions
        if not isinstance(action, DropResult)
    ]


def synchronisers() -> st.SearchStrategy[Synchroniser]:
    cuts = st.one_of(st.none(), FACTORS)
    return st.one_of(FACTORS.map(ByResults), cuts.map(Cut))


@given(run=runs(), synchroniser=synchronisers(), read=st.floats(0, 1))
def test_take_when_the_log_ends_anywhere_then_the_output_partitions_the_serials(
    run: Run, synchroniser: Synchroniser, read: float
) -> None:
    log = run.log[: round(read * len(run.log))]
    actions = acted(synchroniser, log)
    reached = {role: max((e.through for e in log if e.origin is role), default=0) for role in Role}
    if synchroniser.synchronised is None:
        actions += synchroniser.abandon()
        complete_to = reached[Role.SOURCE]
    else:
        complete_to = max(synchroniser.synchronised.cut, reached[Role.TARGET])
    intervals = [(0, 0), *covered(actions)]
    assert all(after < through for after, through in intervals[1:])
    assert all(earlier[1] == later[0] for earlier, later in pairwise(intervals))
    assert intervals[-1][1] == complete_to
    assert sorted(a.event.position for a in actions) == [e.position for e in log]


@given(run=runs(), synchroniser=st.sampled_from([ByResults, Cut]).map(lambda kind: kind(0)))
def test_take_when_the_factor_is_zero_then_no_result_is_amended(run: Run, synchroniser: Synchroniser) -> None:
    assert not any(isinstance(action, AmendResult) for action in acted(synchroniser, run.log))


@given(run=runs(), synchroniser=synchronisers())
def test_take_when_synchronised_then_the_decision_says_what_was_done(
    run: Run, synchroniser: Synchroniser
) -> None:
    actions = acted(synchroniser, run.log)
    decision = synchroniser.synchronised
    if decision is None:
        assert not any(isinstance(a, AmendResult) for a in actions)
        return
    assert decision.settled_at is not None
    assert [a for a in actions if isinstance(a, AmendResult)] == list(decision.amended)
    assert len(decision.amended) <= 1
    places = {e.position: e for e in run.log}
    source, target = (
        max(e.through for e in run.log if e.origin is role and e.position <= decision.decided_at)
        for role in (Role.SOURCE, Role.TARGET)
    )
    assert decision.offset == source - target
    for action in actions:
        if action in decision.actions:
            continue
        owner = Role.TARGET if action.event.position > decision.settled_at else Role.SOURCE
        assert isinstance(action, DropResult) == (action.event.origin is not owner)
    touched = {*decision.verbatim, *decision.dropped, *(a.event.position for a in decision.amended)}
    assert touched <= places.keys()
    assert all(interval[1] <= decision.cut or interval[0] >= decision.cut for interval in covered(actions))


@given(run=runs())
def test_cut_when_the_target_has_come_as_far_as_the_source_then_it_is_decided(run: Run) -> None:
    synchroniser = Cut()
    reached: dict[Role, int] = {}
    decided = False
    for event in run.log:
        synchroniser.take(event)
        reached[event.origin] = event.through
        decided |= len(reached) == 2 and reached[Role.TARGET] >= reached[Role.SOURCE]
        assert (synchroniser.synchronised is not None) == decided


@given(run=runs(), factor=FACTORS)
def test_by_results_when_run_over_the_log_then_it_does_what_the_check_does(run: Run, factor: int) -> None:
    synchroniser = ByResults(factor)
    actions = acted(synchroniser, run.log)
    state, out = checked(run, factor)
    assert (synchroniser.synchronised is None) == (state.agreement is None)
    assert covered(actions) == [(o.result.serial - o.result.value, o.result.serial) for o in out]


@given(run=runs(), synchroniser=synchronisers(), again=st.data())
def test_take_when_results_are_delivered_again_then_the_output_is_the_same(
    run: Run, synchroniser: Synchroniser, again: st.DataObject
) -> None:
    actions = []
    for place, event in enumerate(run.log):
        actions += synchroniser.take(event)
        repeated = again.draw(st.integers(0, place))
        assert synchroniser.take(run.log[repeated]) == []
    if synchroniser.synchronised is None:
        actions += synchroniser.abandon()
    assert covered(actions)[-1][1] == run.count
    assert all(earlier[1] == later[0] for earlier, later in pairwise(covered(actions)))
