"""Commands of people at a site to its agent, over the site's own server: they need no hub."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from towpath.contracts.job import EXAMPLE_SPEC, JobSpec
from towpath.contracts.message import ROOT, Command, JobName, Model, SiteName


class Adjusted(Model):
    """A job as its site runs it from now on."""

    job: JobName
    epoch: int
    revision: int
    adjustments: int = Field(ge=0)
    """Adjustments of the job at its site so far."""
    note: str = ""


class AdjustJob(Command[Adjusted]):
    """Change the parameters of a job at the site that runs it, also while the hub is out of reach.

    What the state, the fields of the results, inputs and output depend on must stay as it is. Only the site's
    operator may send it, and only at the site's own server.
    """

    subject = f"{ROOT}.command.{{site}}.adjust-job"
    answer = Adjusted
    example = {"id": "l1", "site": "jfk", "spec": {**EXAMPLE_SPEC, "trigger_s": 2.0}}

    site: SiteName
    spec: JobSpec


LOCAL_COMMANDS: tuple[type[Command[Any]], ...] = (AdjustJob,)
