"""Steps of a scenario's timeline that the run does itself, within milliseconds of their moment.

A rule takes up to half a second to act, which is longer than most steps of a migration. Rules end with their
lease when the run is killed. These steps do not, so they are refused on a mesh that is not the run's own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from towpath.contracts.faults import RuleAction, TargetKind
from towpath.contracts.message import JobName, Model
from towpath.contracts.scenario_load import Seconds


class Strike(RuleAction):
    """Do one fault to one target, at once. A process that does not run yet is awaited for 90 seconds."""

    target: Literal[TargetKind.PROCESS, TargetKind.DISK, TargetKind.LINK, TargetKind.MACHINE]
    name: str = Field(min_length=1, max_length=200)
    """Which one, as in rules: `jfk-engine`, `coordinator`; of a link, its site; of a machine, a site or
    `hub`."""
    for_s: Seconds = Field(default=10.0, gt=0)
    """Duration of a fault that lasts. A process that is restarted meanwhile has it, too."""


class Meddling(StrEnum):
    """Harm done to one command."""

    DELIVER_TWICE = "deliver_twice"
    """The command is delivered a second time."""
    LOSE_REPLY = "lose_reply"
    """The command is carried out and answered, and the coordinator dies without having read the answer."""


class HubTrouble(StrEnum):
    """Harm done to the coordinator's leadership, or to the registry."""

    SECOND_COORDINATOR = "second_coordinator"
    """A second coordinator takes the first for dead, and leads some seconds later. Then the first ends, is
    restarted, and takes over again."""
    REDIS_FROM_YESTERDAY = "redis_from_yesterday"
    """Redis is killed, and starts with the data that it had at the beginning of `during`."""


class Interception(Model):
    """Wait for the command of an operation's step, and meddle with it.

    The command is awaited from the beginning of `during` on. The step itself ends when the harm is done, so
    give it a moment of its own, before that of the operation.
    """

    job: JobName
    step: str
    """As `towpath drill --list` and the operation's journal name it."""
    do: Meddling
    within_s: Seconds = 30.0
    """The run has failed when the command does not come within so long."""
