"""What runs, as far as compositions look at it."""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.composition.graph import Stream
from towpath.contracts.job import JobSpec
from towpath.contracts.message import SiteName
from towpath.contracts.pipeline import Demand, PipelineName


@dataclass(frozen=True)
class RunningJob:
    """A job that runs."""

    spec: JobSpec
    """Its description. Its `site` is where it ran first, which need not be where it is now."""
    site: SiteName
    """Where it runs now."""
    pipeline: PipelineName | None
    """The pipeline it belongs to; None: it was deployed by itself."""
    resources: Demand = field(default_factory=Demand)
    artefact: str | None = None
    """Digest of the user code that it runs, if known."""
    reads: frozenset[Stream] | None = None
    """What it reads of other jobs, as they write now; None: what its description says. The two differ when
    a job came to one of its topics, or went on in another stream, and the reader was not changed."""
