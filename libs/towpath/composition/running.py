"""Running jobs, as far as compositions need to know them."""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.composition.graph import Stream
from towpath.contracts.job import JobSpec
from towpath.contracts.message import SiteName
from towpath.contracts.pipeline import Demand, PipelineName


@dataclass(frozen=True)
class RunningJob:
    """A running job."""

    spec: JobSpec
    """Its description. Its `site` is where it first ran, which need not be where it runs now."""
    site: SiteName
    """Where it runs now."""
    pipeline: PipelineName | None
    """The pipeline it belongs to, or None if it was deployed by itself."""
    resources: Demand = field(default_factory=Demand)
    artefact: str | None = None
    """Digest of the user code that it runs, if known."""
    reads: frozenset[Stream] | None = None
    """Streams of other jobs that it reads now. None means: those that its description says.

    The two differ when a job began to write one of its topics, or went on in another stream, and the reader
    was not changed."""
