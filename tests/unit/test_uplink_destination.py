"""Where an uplink goes on when its origin has lost the end of its stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from towpath.contracts.data_plane import UPLINK_HEADER
from towpath.contracts.uplink import ResolvedUplink, UplinkSpec
from towpath.uplinks import destination
from towpath.uplinks.destination import Arrived, at_origin
from towpath.uplinks.position import EventPlace, Lane, Position

UPLINK = ResolvedUplink(
    spec=UplinkSpec.model_validate({"name": "u", "site": "train", "topic": "a", "to": "cloud"}),
    stream="OUT_a",
    subject=None,
    after_serial=0,
)


def sent(lane: Lane, *serials: int) -> list[Any]:
    """Messages at the destination. An event was stored at the time that is its number."""
    places = (EventPlace(0, lane, serial, serial - 1, serial, str(serial)) for serial in serials)
    return [SimpleNamespace(headers={UPLINK_HEADER: place.header()}) for place in places]


@pytest.mark.parametrize(
    ("keeps", "agreed"), [(4000, 2000), (1500, 1500), (101, 101), (100, 100), (50, 50), (0, 0)]
)
async def test_origin_when_it_lost_its_end_then_events_that_came_late_are_common_too(
    monkeypatch: pytest.MonkeyPatch, keeps: int, agreed: int
) -> None:
    """After an outage, 5,001 to 5,010 went first, and then 101 to 2,000. The rest is still to be sent."""
    pages = [
        sent(Lane.LIVE, *range(1, 101)),
        [*sent(Lane.LIVE, *range(5001, 5011)), *sent(Lane.LATE, *range(101, 1001))],
        sent(Lane.LATE, *range(1001, 2001)),
    ]
    view = SimpleNamespace(life="one", first=1, last=keeps + 20)  # Others have these numbers by now.

    async def read(*_: object) -> AsyncIterator[list[Any]]:
        for page in reversed(pages):
            yield page

    async def look(*_: object) -> Any:
        return view

    async def is_another(_: object, site: str, stream: str, serial: int, stored_at: str) -> bool:
        return serial > keeps

    monkeypatch.setattr(destination, "pages_before", read)
    monkeypatch.setattr(destination, "view_of", look)
    monkeypatch.setattr(destination, "is_another", is_another)
    before = Position(life="one", live=5010, stored_at="5010", pending=((2001, 5000),))

    found = await at_origin(cast("Any", None), UPLINK, Arrived(2010, before))

    assert found.live == agreed
