"""Change the text of running queries: join a file to it, or take a query out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from towpath.bus import Bus
from towpath.cli.connection import LOOK_ATTEMPT_S, LOOK_DEADLINE_S
from towpath.cli.pipeline_files import text_of
from towpath.composition.job_changes import begin_again
from towpath.contracts.commands import ListSites
from towpath.contracts.message import Command, Model
from towpath.contracts.pipeline import PipelineSpec, PipelineView
from towpath.contracts.pipeline_commands import ApplyPipeline, ShowPipeline
from towpath.contracts.query import QueryExplanation
from towpath.queries.explanation import explanation
from towpath.queries.joining import Joined
from towpath.queries.running import with_text, without

AnswerT = TypeVar("AnswerT", bound=Model)


@dataclass(frozen=True)
class Joining:
    """A file that joins running queries."""

    file: Path
    into: str
    """Name of the running queries."""
    at: str | None
    """The site that asks; None: that of the running queries."""
    filled: Mapping[str, str]
    trigger_s: float | None = None
    webhook: str | None = None

    async def explained(self, bus: Bus, sites: Sequence[str] | None) -> QueryExplanation:
        """Return the plan of both. `sites` are taken for all sites, unless they are None."""
        view, found = await self._joined(bus, sites)
        return explanation(found.compiled, found.added, begin_again(view.spec, found.compiled.pipeline))

    async def command(self, bus: Bus, drop_state: list[str]) -> tuple[ApplyPipeline, str]:
        """Return the command that joins them, and the site of the answers."""
        view, found = await self._joined(bus, None)
        return _change(view, found.compiled.pipeline, drop_state), found.compiled.asked.site

    async def _joined(self, bus: Bus, sites: Sequence[str] | None) -> tuple[PipelineView, Joined]:
        view = await looked(bus, ShowPipeline(pipeline=self.into))
        found = with_text(
            view,
            sites or await sites_of(bus),
            text_of(self.file),
            at=self.at,
            filled=self.filled,
            trigger_s=self.trigger_s,
            webhook=self.webhook,
        )
        return view, found


async def removal(bus: Bus, name: str, query: str, drop_state: list[str], *, now: bool) -> ApplyPipeline:
    """Return the command that takes a query out of running ones."""
    view = await looked(bus, ShowPipeline(pipeline=name))
    left = without(view, await sites_of(bus), query)
    return _change(view, left.pipeline, drop_state).model_copy(update={"now": now})


async def sites_of(bus: Bus) -> list[str]:
    """Return all sites of the mesh."""
    return [view.site for view in (await looked(bus, ListSites())).sites]


async def looked(bus: Bus, question: Command[AnswerT]) -> AnswerT:
    """Ask the coordinator something that it answers at once."""
    return await bus.request(question, deadline_s=LOOK_DEADLINE_S, attempt_s=LOOK_ATTEMPT_S)


def _change(view: PipelineView, spec: PipelineSpec, drop_state: list[str]) -> ApplyPipeline:
    """Return the command that changes a pipeline, if no one else has changed it since it was looked at."""
    return ApplyPipeline(spec=spec, drop_state=drop_state, expected_apply=view.apply.apply)
