"""Events of the fog demonstration's devices: portions of the file, and events that close windows."""

from __future__ import annotations

import itertools
import json

import pytest

from towpath.checker.clean_truth import clean_truth
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.demonstration.fog.load import MARGIN_S, Portion, turns_of_devices, watermark_s
from towpath.lab.demonstration.fog.run import FogOptions
from towpath.lab.demonstration.fog.truth import turn_truth
from towpath.lab.demonstration.pipeline import CLEAN
from towpath.lab.workload.departures import AIRPORTS, CLOSING_CARRIER

WAIT_S = watermark_s(AIRPORTS)
HOUR_S = 3600.0


@pytest.fixture(scope="module")
def turns() -> list[list[Portion]]:
    return turns_of_devices(AIRPORTS, [(50.0, 10.0), (100.0, 10.0), (150.0, 5.0)], WAIT_S)


def times(portion: Portion, *, closing: bool) -> list[float]:
    accepted = clean_truth(portion.events, CLEAN).accepted.values()
    return [v["departed_at"].timestamp() for v in accepted if (v["carrier"] == CLOSING_CARRIER) == closing]


def test_watermark_when_windows_wait_so_long_then_no_departure_of_the_file_is_late() -> None:
    assert WAIT_S >= 23 * HOUR_S + MARGIN_S


def test_portions_when_sent_at_their_rate_then_each_takes_as_long_and_ends_with_one_closing_event(
    turns: list[list[Portion]],
) -> None:
    for turn, departures in zip(turns, (500, 1000, 750), strict=True):
        for portion in turn:
            malformed = departures // 200
            assert len(portion.events) == departures + malformed + 1
            assert [json.loads(e)["carrier"] for e in portion.events[-1:]] == [CLOSING_CARRIER]
            assert len(times(portion, closing=True)) == 1


def test_closing_event_when_it_comes_then_all_windows_of_all_airports_are_closed(
    turns: list[list[Portion]],
) -> None:
    for turn in turns:
        newest = max(max(times(portion, closing=False)) for portion in turn)
        for portion in turn:
            [closing] = times(portion, closing=True)
            assert closing - WAIT_S >= newest + HOUR_S


def test_portion_when_it_follows_another_then_no_departure_is_late_by_the_closing_event_before(
    turns: list[list[Portion]],
) -> None:
    for before, after in itertools.pairwise(turns):
        for former, portion in zip(before, after, strict=True):
            [closing] = times(former, closing=True)
            assert min(times(portion, closing=False)) >= closing - WAIT_S


def test_events_when_all_portions_are_sent_then_no_two_accepted_ones_share_an_id(
    turns: list[list[Portion]],
) -> None:
    ids = [
        values["id"]
        for turn in turns
        for portion in turn
        for values in clean_truth(portion.events, CLEAN).accepted.values()
    ]
    assert len(ids) == len(set(ids)) > 6_000


def test_truth_when_devices_have_sent_then_it_counts_every_departure_and_no_closing_event(
    turns: list[list[Portion]],
) -> None:
    truth = turn_truth(turns[0])
    counted = {job: 0 for job in {identity.job for identity in truth}}
    for identity, values in truth.items():
        assert dict(identity.key)["carrier"] != CLOSING_CARRIER
        counted[identity.job] += values["departures"]
    for portion in turns[0]:
        accepted = clean_truth(portion.events, CLEAN).accepted.values()
        real = [values for values in accepted if values["carrier"] != CLOSING_CARRIER]
        assert counted[f"hourly-{portion.edge}"] == len(real)
        assert counted[f"delays-{portion.edge}"] == sum(values["delay"] > 15 for values in real)
    edges = [portion.edge for portion in turns[0]]
    assert counted["delays-all"] == sum(counted[f"delays-{edge}"] for edge in edges)


def test_portions_when_the_file_has_not_so_many_departures_then_they_are_refused() -> None:
    with pytest.raises(TowpathError) as refused:
        turns_of_devices(AIRPORTS, [(1000.0, 20.0), (2000.0, 10.0)], WAIT_S)
    assert (refused.value.detail.code, refused.value.detail.field) == (ErrorCode.INVALID, "rates")


@pytest.mark.parametrize("values", [{"rates": ()}, {"rates": (100.0, 0.0)}, {"seconds": -1.0}])
def test_options_when_a_value_makes_no_sense_then_it_is_named(values: dict) -> None:
    with pytest.raises(TowpathError) as refused:
        FogOptions(**values)
    assert refused.value.detail.field in values
