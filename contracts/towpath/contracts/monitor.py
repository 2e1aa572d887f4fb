"""Commands of the coordinator to the monitor: compare two runs of one job."""

from __future__ import annotations

from typing import Any, Generic

from pydantic import Field

from towpath.contracts.commands import ConsistencyCheck
from towpath.contracts.job import ResolvedInput, ResolvedOutput
from towpath.contracts.message import ROOT, Answer, JobName, Model, SiteName
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, AmendedResult, StepCommand
from towpath.contracts.reply import Done

_MONITOR = f"{ROOT}.command.monitor"


class Watch(Model):
    """Two runs of a job, and how they are compared. All a monitor needs: it keeps nothing durable."""

    job: JobName
    source: SiteName
    target: SiteName
    source_epoch: int
    target_epoch: int
    interim: int | None = None
    """Epoch under which the monitor forwards results; null when the source publishes by itself."""
    inputs: list[ResolvedInput]
    output: ResolvedOutput
    output_serial: int
    """Last serial number of the output stream before the comparison."""
    check: ConsistencyCheck
    factor: int = Field(default=0, ge=0)
    """Synchronisation factor S: by how many events results may differ in the check `results`."""
    trigger_s: float = 1.0


class MonitorCommand(StepCommand[Answer], Generic[Answer]):
    """A command to the monitor."""


_EXAMPLE_WATCH: dict[str, Any] = {
    "job": "hourly-jfk",
    "source": "jfk",
    "target": "cloud",
    "source_epoch": 2,
    "target_epoch": 4,
    "inputs": EXAMPLE_ASSIGNMENT["inputs"],
    "output": EXAMPLE_ASSIGNMENT["output"],
    "output_serial": 1200,
    "check": "identity",
}


class StartMonitor(MonitorCommand[Done]):
    """Begin to compare, and to forward the source's results where they are diverted."""

    subject = f"{_MONITOR}.start"
    answer = Done
    example = {"id": "w1", "operation": "m1", "watch": _EXAMPLE_WATCH}

    watch: Watch


class Consistent(Model):
    """From here on the target's results can stand for the source's."""

    position: int = 0
    """Position in the shadow stream behind which all results of the target pass as they are."""
    amended: list[AmendedResult] = []
    """To be stored before them."""
    offset: int | None = None
    """SN of the source less SN of the target when they were found consistent."""
    compared: int = 0
    """Results that both published, and that were equal."""
    forwarded: int = 0
    """Results of the source that the monitor forwarded."""


class AwaitConsistency(MonitorCommand[Consistent]):
    """Answer when the two runs are consistent. Fails when their results differ."""

    subject = f"{_MONITOR}.await-consistency"
    answer = Consistent
    example = {"id": "w2", "operation": "m1", "watch": _EXAMPLE_WATCH, "within_s": 60.0}

    watch: Watch
    """Again complete: a monitor that was restarted meanwhile goes on with it."""
    within_s: float = Field(default=60.0, gt=0)


class StopMonitor(MonitorCommand[Done]):
    """Stop comparing. Succeeds if nothing was compared."""

    subject = f"{_MONITOR}.stop"
    answer = Done
    example = {"id": "w3", "operation": "m1"}


MONITOR_COMMANDS: tuple[type[MonitorCommand[Any]], ...] = (StartMonitor, AwaitConsistency, StopMonitor)
