"""Choose the usable answers of several sites: the keys of one of them may be stolen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Series
from towpath.contracts.storage import ValueSeries
from towpath.telemetry.intervals import LATEST_S

T = TypeVar("T")
S = TypeVar("S", Series, ValueSeries)


def usable(
    parts: Mapping[str, T | TowpathError], points: Callable[[T], int], limit: int
) -> tuple[dict[str, T], dict[str, str]]:
    """Return the answers by site, and the reason for each site without one.

    `points` returns the points of an answer; all together should have at most `limit`. Raises `TowpathError`
    (invalid) if no site answers, and one says that the question cannot be answered. Beside answers, that is
    a reason like others: a site must not keep people from those of others.
    """
    answers = {site: part for site, part in parts.items() if not isinstance(part, TowpathError)}
    reasons = {site: part for site, part in parts.items() if isinstance(part, TowpathError)}
    refusal = next((each for each in reasons.values() if each.detail.code is ErrorCode.INVALID), None)
    if refusal is not None and not answers.keys() - {HUB_SCOPE}:
        raise refusal
    left_out = _too_large({site: points(answer) for site, answer in answers.items()}, limit)
    kept = {site: answer for site, answer in answers.items() if site not in left_out}
    return kept, {site: reason.detail.one_line() for site, reason in reasons.items()} | left_out


def credible(site: str, series: Sequence[S], limit: int) -> list[S] | TowpathError:
    """Return the series of an answer, without points that have no date, or why no honest site answers so.

    The keys of its agent may be stolen.
    """
    if any(each.site != site for each in series):
        return TowpathError(ErrorCode.NOT_ALLOWED, "not read: its answer is about another site")
    if points_of(series) > limit:
        return TowpathError(ErrorCode.NOT_ALLOWED, "not read: its answer has more points than were asked for")
    if all(0 <= at < LATEST_S for each in series for at, _ in each.points):
        return [*series]
    return [kept for each in series if (kept := _dated(each)).points]


def _dated(series: S) -> S:
    points = [point for point in series.points if 0 <= point[0] < LATEST_S]
    return series.model_copy(update={"points": points})


def points_of(series: Iterable[Series | ValueSeries]) -> int:
    """Return the number of points."""
    return sum(len(each.points) for each in series)


def _too_large(points: Mapping[str, int], limit: int) -> dict[str, str]:
    """Return the sites that are left out, with the reason, so that one does not keep people from all others.

    They are those that have more than half of what one answer may have, if all have too much together. If no
    others have anything, there are none: then the question asks for too much.
    """
    large = {site for site, count in points.items() if count > limit / 2}
    others = sum(count for site, count in points.items() if site not in large | {HUB_SCOPE})
    if sum(points.values()) <= limit or not others:
        return {}
    return dict.fromkeys(
        large, f"left out: it has more than half of the {limit} points that an answer may have"
    )
