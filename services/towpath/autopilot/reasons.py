"""Say for people why a decision wants its moves, and which rule holds them back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from towpath.autopilot.foresight import Sight
from towpath.placement.autopilot.candidates import UNSTABLE_FROM
from towpath.placement.autopilot.deciding import Decision, Verdict
from towpath.placement.autopilot.outlook import Cause, Window

RULES = {
    Verdict.TOO_DEAR: "moving costs more than half of what it gains",
    Verdict.RESTING: "a job moved lately",
    Verdict.SWAP: "two sites would swap jobs",
    Verdict.BUDGET: "there were enough moves within this hour",
    Verdict.VETOED: "people refused these moves lately",
}
"""Rules that hold decisions back."""

_CAUSES = {
    Cause.DOWN: "{site} will be down {time}",
    Cause.LINK: "{site} will have no link {time}",
    Cause.COVERAGE: "{site} had no link where it will be {time}",
    Cause.BATTERY: "the battery of {site} will be empty {time}",
    Cause.PRICE: "energy at {site} costs {factor:g} times as much {time}",
}


def reason_of(decision: Decision, sight: Sight) -> str:
    """Return why jobs should leave where they are."""
    origins = [move.origin for move in decision.moves]
    said = dict.fromkeys(said for site in dict.fromkeys(origins) for said in _of_site(site, sight))
    late = decision.staying is not None and decision.staying.total_late_s > 0
    if not late and not said:
        return "less energy or fewer bytes over links"
    return "; ".join(said) or "results come too late over the links there are"


def _of_site(site: str, sight: Sight) -> Iterator[str]:
    ahead = sight.situation.ahead
    for window in sight.windows:
        if window.site == site and window.from_s < ahead.seconds:
            time = _time(window, ahead.seconds)
            yield _CAUSES[window.cause].format(site=site, time=time, factor=window.factor)
    stability = sight.picture.view.site[site].stability
    if stability <= 1 - UNSTABLE_FROM:
        yield f"{site} failed lately: it is expected to be up {100 * stability:.0f} % of the time"
    needed, has = _most_needed(site, sight)
    if needed > has:
        yield f"{site} will need {needed:.1f} cores and has {has:.1f}"


def _most_needed(site: str, sight: Sight) -> tuple[float, float]:
    """Return the most cores that jobs of a site will need, and those it has then."""
    there = [name for name, place in sight.situation.current.items() if place == site]
    found = [
        (sum(phase.view.cores_of(phase.view.job[name]) for name in there), phase.view.site[site].cores)
        for phase in sight.situation.ahead.phases
        if phase.view.site[site].cores
    ]
    return max(found, default=(0.0, 0.0))


def _time(window: Window, horizon_s: float) -> str:
    if window.from_s <= 0:
        return f"until {_clock(window.to_s)}" if window.to_s < horizon_s else "from now on"
    begin = f"from {_clock(window.from_s)}"
    return f"{begin} to {_clock(window.to_s)}" if window.to_s < horizon_s else begin


def _clock(in_s: float) -> str:
    return f"{datetime.fromtimestamp(time.time() + in_s, UTC):%H:%M:%S}"
