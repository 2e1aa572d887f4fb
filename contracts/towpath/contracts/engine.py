"""Messages between an agent and its engine, over the site's own broker."""

from __future__ import annotations

from typing import Annotated, Any, Generic

from pydantic import Field, StringConstraints

from towpath.contracts.job import Assignment, JobStatus
from towpath.contracts.message import ROOT, Answer, Command, JobName, Model, SiteName
from towpath.contracts.metrics import Sample
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, Paused
from towpath.contracts.reply import Done
from towpath.contracts.site_commands import Recomputed

_ENGINE = f"{ROOT}.engine.{{site}}.{{engine}}"

SHARED_ENGINE = "_shared"
"""The engine of all jobs of a site that ask for none of their own. No job has such a name."""

EngineName = Annotated[str, StringConstraints(pattern=rf"^({SHARED_ENGINE}|[a-z][a-z0-9-]{{0,47}})$")]
"""Which engine of a site: the shared one, or that of the job of this name."""


class EngineCommand(Command[Answer], Generic[Answer]):
    """A command to one engine of a site."""

    site: SiteName
    engine: EngineName = SHARED_ENGINE


class RunQuery(EngineCommand[Done]):
    """Start the job's query from its checkpoint. Harmless if it runs already with this epoch."""

    subject = f"{_ENGINE}.run-query"
    answer = Done
    example = {"id": "e1", "site": "jfk", "assignment": EXAMPLE_ASSIGNMENT, "checkpoint": "/data/checkpoint"}

    assignment: Assignment
    checkpoint: str
    """Directory of the checkpoint."""


class AnalyseJob(EngineCommand[Done]):
    """Compile the job without starting it; the error says what does not fit. A start that follows is
    faster."""

    subject = f"{_ENGINE}.analyse-job"
    answer = Done
    example = {"id": "e2", "site": "jfk", "assignment": EXAMPLE_ASSIGNMENT, "checkpoint": "/data/checkpoint"}

    assignment: Assignment
    checkpoint: str
    """Where its checkpoint will be."""


class HaltQuery(EngineCommand[Paused]):
    """Stop the job's query after the micro-batch under way is committed."""

    subject = f"{_ENGINE}.halt-query"
    answer = Paused
    example = {"id": "e3", "site": "jfk", "job": "hourly-jfk", "within_s": 10.0}

    job: JobName
    within_s: float = Field(default=10.0, gt=0)
    """Then the batch under way is interrupted; the next start repeats it, with equal message ids."""


class QueryList(Model):
    """All queries of the engine."""

    incarnation: str
    """Changes when the engine's process restarts."""
    queries: list[JobStatus]


class ListQueries(EngineCommand[QueryList]):
    """Return the status of all queries. The answer also shows that the engine lives."""

    subject = f"{_ENGINE}.list-queries"
    answer = QueryList
    example = {"id": "e4", "site": "jfk"}


class Measures(Model):
    """Measurements of an engine's jobs."""

    incarnation: str
    """Changes when the engine's process restarts."""
    samples: list[Sample] = []
    last: int
    """Number of the last sample; ask for those after it next time."""


class ReadMeasures(EngineCommand[Measures]):
    """Samples that the engine took since the agent last asked. It keeps those of some minutes."""

    subject = f"{_ENGINE}.read-measures"
    answer = Measures
    example = {"id": "e6", "site": "jfk", "after": 0}

    after: int = Field(default=0, ge=0)
    """Number of the last sample that the agent has of this incarnation."""


class RecomputeRange(EngineCommand[Recomputed]):
    """Compute a job over a range of serial numbers as one processing-time window, and publish nothing."""

    subject = f"{_ENGINE}.recompute-range"
    answer = Recomputed
    example = {
        "id": "e5",
        "site": "jfk",
        "assignment": EXAMPLE_ASSIGNMENT,
        "after": 1200,
        "through": 1213,
    }

    assignment: Assignment
    after: int = Field(ge=0)
    through: int = Field(ge=0)


ENGINE_COMMANDS: tuple[type[Command[Any]], ...] = (
    RunQuery,
    AnalyseJob,
    HaltQuery,
    ListQueries,
    RecomputeRange,
    ReadMeasures,
)
