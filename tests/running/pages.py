"""The blocks of code on pages for people, and the shell script that runs a page's commands.

A page is run from top to bottom in one shell. An HTML comment directly above a block says what else to do:

    <!-- file: NAME -->              the block is written to this file before the page is run
    <!-- stopped after: 5 s -->      each of its commands goes on until it is stopped
    <!-- run by: PART, … -->         these parts of `tests/parts.py` run what the block does
    <!-- not run: REASON -->
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from running.places import ROOT

PAGES = (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))

DIRECTIVES = ("file", "stopped after", "run by", "not run")

_BLOCK = re.compile(r"(?:^<!-- *([^\n]+?) *-->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIMED_OUT = 124  # of the program `timeout`


@dataclass(frozen=True)
class Block:
    """A block of code, and the directive above it."""

    page: str
    """Relative to the repository."""
    language: str
    text: str
    directive: str = ""
    """Its name, such as `not run`; empty where there is none."""
    argument: str = ""

    @property
    def commands(self) -> list[str]:
        """Return the commands: what follows each `$`. The other lines are output."""
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]

    @property
    def is_run(self) -> bool:
        """True if the page's own run includes the block."""
        return self.language == "console" and self.directive in ("", "stopped after")

    @property
    def parts(self) -> list[str]:
        """Return the parts of the tests that run it instead."""
        return [part.strip() for part in self.argument.split(",")] if self.directive == "run by" else []


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [Block(name, language, text, *_parsed(comment)) for comment, language, text in found]


def _parsed(comment: str) -> tuple[str, str]:
    name, _, argument = comment.partition(":")
    return (name, argument.strip()) if name in DIRECTIVES else ("", "")


def files(page: Sequence[Block]) -> dict[str, str]:
    """Return name → content of the files that a page asks its reader to save."""
    return {block.argument: block.text for block in page if block.directive == "file"}


def script(page: Sequence[Block]) -> str:
    """Return the shell script of a page: it shows each command, runs it, and ends at the first failure."""
    lines = ["set -euo pipefail"]
    for block in page:
        if block.is_run:
            for command in block.commands:
                lines.append(f"printf '%s\\n' {shlex.quote(f'$ {command}')}")
                lines += _stopped(command, block.argument) if block.directive else [command]
    return "\n".join(lines) + "\n"


def _stopped(command: str, after: str) -> list[str]:
    """Run a command that does not end by itself: it must still run when it is stopped."""
    seconds = after.removesuffix(" s")
    return ["set +e", f"timeout {seconds} {command}", f"[ $? = {_TIMED_OUT} ] || exit 1", "set -e"]
