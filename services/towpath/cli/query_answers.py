"""Follow the answers of running queries: a table that refreshes, or a line for each answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.cli.output import print_json_line, print_rich, table_of
from towpath.contracts.data_plane import output_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.streams.follower import Follower, StreamGoneError
from towpath.streams.pages import last_serial
from towpath.tasks import pause

LOOK_S = 0.25
"""Seconds between two looks for new answers."""

ABSENT_S = 30.0
"""Time for the stream of answers to appear: the job that writes it may be starting."""

_OFF_HALF, _OFF_VALUE = 0.01, 1e-9
"""A value counts as the middle of its interval up to this part of the half width, and of itself."""

Answer = dict[str, Any]


class Newest:
    """The newest answer of each query and key."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], Answer] = {}
        self._seen = 0

    def see(self, answer: Answer) -> None:
        """Take in an answer."""
        self._seen += 1
        key = msgspec.json.encode(answer["key"], order="sorted").decode()
        self._answers[answer["key"]["query"], key] = answer

    def table(self) -> Table:
        """Return the answers, in the order of queries and keys."""
        rows = [
            (
                answer["key"]["query"],
                " ".join(f"{name}={value}" for name, value in answer["key"].items() if name != "query")
                or "-",
                answer["window"]["end"],
                shown(answer["values"]),
            )
            for _, answer in sorted(self._answers.items())
        ]
        return table_of(("query", "key", "at", f"answer ({self._seen:,} so far)"), rows)


def shown(values: Mapping[str, Any]) -> str:
    """Return an answer for people. An estimate has its interval, and the confidence of that, behind it."""
    value, low, high = (values.get(name) for name in ("value", "low", "high"))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return msgspec.json.encode(value).decode()
    if low is None or high is None:
        return _number(value)
    half = (high - low) / 2
    is_middle = abs((low + high) / 2 - value) <= _OFF_HALF * half + _OFF_VALUE * abs(value)
    # Half a width says something by its first two digits.
    reach = f" ± {_number(float(f'{half:.2g}'))}" if is_middle else f", {_number(low)} to {_number(high)}"
    # Answers that were stored by an earlier version do not say their confidence.
    share = f" ({100 * values['confidence']:.4g} %)" if "confidence" in values else ""
    return f"{_number(value)}{reach}{share}"


def _number(value: float) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else msgspec.json.encode(value).decode()


async def newest_serial(bus: Bus, site: str, name: str) -> int:
    """Return the serial number of the newest answer; 0 if there is none.

    Raises `TowpathError` (site down).
    """
    try:
        return await last_serial(bus.connection, site, output_stream(name))
    except TimeoutError as error:
        raise _unreadable(site, error) from error


async def follow_answers(
    home: Home, site: str, name: str, *, after: int | None = None, once: bool = False, as_json: bool = False
) -> None:
    """Show answers as they come, until cancelled; `once`: those that are there.

    They begin after a serial number; None: with the next one that comes. Raises `TowpathError` if the site
    stays out of reach, or the stream of answers is deleted.
    """
    newest = Newest()
    async with open_bus(home) as bus:
        begin = await newest_serial(bus, site, name) if after is None else after
        follower = Follower(bus.connection, site, output_stream(name), after=begin)
        if sys.stdout.isatty() and not as_json and not once:
            with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
                while True:
                    await _take(follower, newest, as_json=False)
                    live.update(newest.table(), refresh=True)
                    await pause(LOOK_S)
        while True:
            came = await _take(follower, newest, as_json=as_json)
            if came and not as_json and not once:
                print_rich(newest.table())
            if once and follower.at_end:
                break
            await pause(0 if came and once else LOOK_S)
    if not as_json:
        print_rich(newest.table())


async def _take(follower: Follower, newest: Newest, *, as_json: bool) -> int:
    """Read the next answers. Waits where the site is out of reach, or the stream is not there yet."""
    begun = asyncio.get_running_loop().time()
    while True:
        try:
            messages = await follower.read()
            break
        except (TimeoutError, StreamGoneError) as error:
            is_deleted = isinstance(error, StreamGoneError) and follower.has_begun
            if is_deleted or asyncio.get_running_loop().time() - begun > ABSENT_S:
                raise _unreadable(follower.site, error) from error
            await asyncio.sleep(LOOK_S)
    for message in messages:
        answer = msgspec.json.decode(message.body)
        newest.see(answer)
        if as_json:
            print_json_line(
                {name: answer[name] for name in ("key", "window", "values", "stored_at", "serial")}
            )
    return len(messages)


def _unreadable(site: str, error: Exception) -> TowpathError:
    if isinstance(error, TimeoutError):
        return TowpathError(ErrorCode.SITE_DOWN, f"site {site} does not answer")
    return TowpathError(ErrorCode.UNKNOWN_TOPIC, f"the answers at {site} were deleted, or none are kept yet")
