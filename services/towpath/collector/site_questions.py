"""Ask several sites one question, each with a deadline of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import nats.errors

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE, Command, Model
from towpath.contracts.metrics import Series
from towpath.contracts.site import SiteStatus
from towpath.contracts.storage import ValueSeries
from towpath.telemetry.intervals import LATEST_S

Answer = TypeVar("Answer", bound=Model)
T = TypeVar("T")

S = TypeVar("S", Series, ValueSeries)

SITE_S = 3.0
"""Deadline for a site's answer."""

SILENT_SITE_S = 0.5
"""The same for a site that was not heard lately, so that other sites need not wait long for it."""

SILENT_AFTER_S = 5.0
"""Age of the last heartbeat that makes a site silent. Heartbeats come every second."""


def divided(parts: Mapping[str, T | TowpathError]) -> tuple[dict[str, T], dict[str, str]]:
    """Return the answers by site, and for the other sites the reasons why there are none.

    Raises `TowpathError` (invalid) if no site answers, and one says that the question cannot be answered.
    Beside answers, that is a reason like others: a site must not keep people from those of others.
    """
    answers = {site: part for site, part in parts.items() if not isinstance(part, TowpathError)}
    reasons = {site: part for site, part in parts.items() if isinstance(part, TowpathError)}
    refusal = next((each for each in reasons.values() if each.detail.code is ErrorCode.INVALID), None)
    if refusal is not None and not answers.keys() - {HUB_SCOPE}:
        raise refusal
    return answers, {site: reason.detail.one_line() for site, reason in reasons.items()}


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


def too_large(points: Mapping[str, int], limit: int) -> dict[str, str]:
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


class SiteQuestions:
    """Knows which sites there are, and which are silent."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._bus = bus
        self._sites = sites
        """Blocks, because it reads the mesh's state."""
        self._heard: dict[str, float] = {}
        """Site → arrival of its last heartbeat, by the monotonic clock."""
        self._began = time.monotonic()

    async def hear(self, heartbeat: SiteStatus) -> None:
        """Note that a site is there."""
        self._heard[heartbeat.site] = time.monotonic()

    async def scopes(self, wanted: Sequence[str] | None, beside: Sequence[str] = ()) -> list[str]:
        """Return the sites that are `wanted`, or all, with the scopes `beside` them.

        Raises `TowpathError` for one that does not exist.
        """
        known = [*beside, *sorted(await asyncio.to_thread(self._sites))]
        chosen = known if wanted is None else list(dict.fromkeys(wanted))
        for scope in chosen:
            if scope not in known:
                raise TowpathError.unknown("site", scope, known, field="sites")
        return chosen

    async def ask(self, site: str, question: Command[Answer]) -> Answer | TowpathError:
        """Return a site's answer, or the reason why there is none."""
        deadline_s = self._deadline_s(site)
        try:
            # Sending has a deadline, too, because the hub may be away.
            async with asyncio.timeout(deadline_s + SILENT_SITE_S):
                return await self._bus.request(question, deadline_s=deadline_s)
        except TowpathError as error:
            return error
        except (TimeoutError, nats.errors.Error, OSError) as error:
            return TowpathError(ErrorCode.UNREACHABLE, f"not read: {error!r}")

    def _deadline_s(self, site: str) -> float:
        silent_s = time.monotonic() - self._heard.get(site, self._began)
        return SITE_S if silent_s < SILENT_AFTER_S else SILENT_SITE_S
