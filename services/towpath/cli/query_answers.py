"""Follow the answers of running queries: a table that refreshes, or a line for each answer."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from towpath.cli.connection import open_bus
from towpath.cli.output import print_json_line, print_rich, table_of
from towpath.contracts.data_plane import output_stream
from towpath.mesh.home import Home
from towpath.streams.follower import Follower, StreamGoneError
from towpath.streams.pages import last_serial

LOOK_S = 0.25
"""Seconds between two looks for new answers."""

ABSENT_S = 30.0
"""Time for the stream of answers to appear: the job that writes it may be starting."""

Answer = dict[str, Any]


class Newest:
    """The newest answer of each query and key."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._seen = 0

    def see(self, answer: Answer) -> None:
        """Take in an answer."""
        self._seen += 1
        self._answers[msgspec.json.encode(answer["key"], order="sorted").decode()] = answer

    def table(self) -> Table:
        """Return the answers, in the order of queries and keys."""
        rows = [
            (
                answer["key"]["query"],
                " ".join(f"{name}={value}" for name, value in answer["key"].items() if name != "query")
                or "-",
                answer["window"]["end"],
                shown(answer["values"].get("value")),
            )
            for _, answer in sorted(self._answers.items())
        ]
        return table_of(("query", "key", "at", f"answer ({self._seen:,} so far)"), rows)


def shown(value: Any) -> str:
    """Return an answer for people."""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return msgspec.json.encode(value).decode()


async def follow_answers(
    home: Home, site: str, name: str, *, earlier: bool = False, once: bool = False, as_json: bool = False
) -> None:
    """Show answers as they come, until cancelled; `once`: those that are there."""
    stream, newest = output_stream(name), Newest()
    async with open_bus(home) as bus:
        after = 0 if earlier else await last_serial(bus.connection, site, stream) or 0
        follower = Follower(bus.connection, site, stream, after=after)
        if sys.stdout.isatty() and not as_json and not once:
            with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
                while True:
                    await _take(follower, newest, as_json=False)
                    live.update(newest.table(), refresh=True)
                    await asyncio.sleep(LOOK_S)
        while True:
            came = await _take(follower, newest, as_json=as_json)
            if came and not as_json and not once:
                print_rich(newest.table())
            if once and follower.at_end:
                break
            await asyncio.sleep(0 if came and once else LOOK_S)
    if not as_json:
        print_rich(newest.table())


async def _take(follower: Follower, newest: Newest, *, as_json: bool) -> int:
    """Read the next answers. Waits where the site is out of reach, or the stream is not there yet."""
    begun = asyncio.get_running_loop().time()
    while True:
        try:
            messages = await follower.read()
            break
        except (TimeoutError, StreamGoneError):
            if asyncio.get_running_loop().time() - begun > ABSENT_S:
                raise
            await asyncio.sleep(LOOK_S)
    for message in messages:
        answer = msgspec.json.decode(message.body)
        newest.see(answer)
        if as_json:
            print_json_line(
                {name: answer[name] for name in ("key", "window", "values", "stored_at", "serial")}
            )
    return len(messages)
