"""The question that a site asks before it lets another site read one of its streams."""

from __future__ import annotations

from typing import Any, Literal

from towpath.contracts.message import ROOT, Command, Model, Scope, SiteName


class ReadingDecision(Model):
    """The answer to `MayRead`."""

    may_read: bool


class MayRead(Command[ReadingDecision]):
    """Ask if a site may read a stream of this one, or of the hub.

    The coordinator knows who reads what for jobs and uplinks, the collector for copies of stored values.
    """

    subject = f"{ROOT}.command.{{service}}.may-read"
    answer = ReadingDecision
    example = {"id": "r1", "service": "coordinator", "site": "jfk", "reader": "cloud", "stream": "IN"}

    service: Literal["coordinator", "collector"]
    site: Scope
    reader: SiteName
    stream: str


READING_COMMANDS: tuple[type[Command[Any]], ...] = (MayRead,)
"""Served by the coordinator and the collector."""
