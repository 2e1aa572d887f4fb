"""Everything that is wrong with a pipeline, before anything of it is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from towpath.composition.running import RunningJob
from towpath.contracts.errors import ErrorDetail
from towpath.contracts.message import SiteName
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.site import Capacity


@dataclass(frozen=True)
class SiteFacts:
    """What a pipeline's jobs need to know of a site."""

    up: bool
    capacity: Capacity = Capacity()


def problems(
    spec: PipelineSpec,
    *,
    sites: Mapping[SiteName, SiteFacts],
    mine: Mapping[str, RunningJob],
    others: Mapping[str, RunningJob],
) -> list[ErrorDetail]:
    """All errors, each with its place in the description, as in `jobs[3].inputs[0].topic`."""
    raise NotImplementedError
