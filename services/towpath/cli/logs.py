"""The command that shows the logs of a mesh's processes."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.container_meshes import check_processes
from towpath.cli.settings import home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home

LOOK_EVERY_S = 0.2
"""Pause between looks for new lines: short for a reader, long for the machine."""


def logs(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One process; all of them without.")
    ] = None,
    lines: Annotated[int, typer.Option(min=0, help="Newest lines of each log.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines.")] = False,
) -> None:
    """Print the newest lines of the mesh's logs, and follow them until Ctrl-C.

    Example: `towpath logs coordinator --follow`
    """
    home = home_of(context)
    check_processes(home, "logs")
    asyncio.run(_print_and_follow(_chosen(home, name), lines, follow, prefixed=name is None))


def _chosen(home: Home, name: str | None) -> list[Path]:
    found = sorted(home.logs.glob("*.log"))
    if not found:
        raise TowpathError(
            ErrorCode.UNREACHABLE,
            "no mesh ever ran here; start one first with `towpath up`",
            field="home",
            value=str(home.root),
        )
    if name is None:
        return found
    if home.log(name) not in found:
        allowed = [path.stem for path in found]
        raise TowpathError.unknown("log", name, allowed, field="name")
    return [home.log(name)]


async def _print_and_follow(paths: list[Path], lines: int, follow: bool, *, prefixed: bool) -> None:
    followed = [FollowedLog(path) for path in paths]
    for log in followed:
        kept = await asyncio.to_thread(log.news)
        _print(log.path, kept[len(kept) - min(lines, len(kept)) :], prefixed)
    while follow:
        await asyncio.sleep(LOOK_EVERY_S)
        for log in followed:
            _print(log.path, await asyncio.to_thread(log.news), prefixed)


def _print(path: Path, lines: list[str], prefixed: bool) -> None:
    for line in lines:
        print(f"{path.stem} | {line}" if prefixed else line, flush=True)


@dataclass
class FollowedLog:
    """A log and the position up to which it was read."""

    path: Path
    inode: int = 0
    position: int = 0

    def news(self) -> list[str]:
        """Return whole lines written since the last look, also when the log began again meanwhile."""
        try:
            with self.path.open("rb") as file:
                self._find_place(os.fstat(file.fileno()))
                file.seek(self.position)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self.position += len(whole)
        return whole.decode(errors="replace").splitlines()

    def _find_place(self, status: os.stat_result) -> None:
        if status.st_ino != self.inode or status.st_size < self.position:
            self.inode, self.position = status.st_ino, 0
