"""The list of commands: `--help` shows it without importing any of them; a call imports the one it runs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_group

from towpath.cli.endings import OneLineGroup

MESH, JOBS, PIPELINES, EDGE = "The mesh", "Jobs", "Pipelines", "Edge nodes and devices"
DATA, WATCH = "Data", "Watching"
"""Panels of `--help`, in the order in which their first commands are listed."""


class ListedCommand(TyperCommand):
    """A command as `--help` and completion show it; `load` imports the command itself."""

    def __init__(self, name: str, target: str, help: str, panel: str) -> None:
        """`target` is `module:attribute`, of a function or of a `typer.Typer`."""
        super().__init__(name, help=help, rich_help_panel=panel)
        self.target = target

    def load(self) -> Any:
        """Import the command, and build it as typer does."""
        module, _, attribute = self.target.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        app = typer.Typer(rich_markup_mode="markdown")
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=self.name)
        else:
            app.command(self.name)(found)
        return get_group(app).commands[self.name or ""]


class CommandList:
    """The commands of `towpath`, in the order in which `--help` shows them."""

    def __init__(self) -> None:
        self._listed: list[tuple[str, str, str, str]] = []

    def add(self, panel: str, module: str, **functions: str) -> None:
        """List functions of a module by their names: function → first paragraph of its docstring."""
        for function, help in functions.items():
            self.add_as(panel, function.replace("_", "-"), f"{module}:{function}", help)

    def add_as(self, panel: str, name: str, target: str, help: str) -> None:
        """List a command under another name, or a group: `target` is the `module:attribute` of either."""
        self._listed.append((name, target, help, panel))

    def __iter__(self) -> Iterator[ListedCommand]:
        return (ListedCommand(*listed) for listed in self._listed)


class ListingGroup(OneLineGroup):
    """A group whose commands are listed. Its subclasses say which."""

    listed: CommandList

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.listed:
            self.add_command(command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that `args` name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, ListedCommand) else command, rest
