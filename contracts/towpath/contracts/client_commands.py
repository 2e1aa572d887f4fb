"""All commands that clients may send: users, their programs, the command line and REST."""

from __future__ import annotations

from typing import Any

from towpath.contracts.autopilot import AUTOPILOT_COMMANDS
from towpath.contracts.broadcast import BROADCAST_COMMANDS
from towpath.contracts.commands import COORDINATOR_COMMANDS
from towpath.contracts.coordinators import COORDINATORS_COMMANDS
from towpath.contracts.fault_commands import FAULT_COMMANDS
from towpath.contracts.links import LINK_COMMANDS
from towpath.contracts.live import RESULT_COMMANDS
from towpath.contracts.message import Command
from towpath.contracts.metrics import METRIC_COMMANDS
from towpath.contracts.pipeline_commands import PIPELINE_COMMANDS
from towpath.contracts.placement import PLACEMENT_COMMANDS
from towpath.contracts.plan_commands import PLAN_COMMANDS
from towpath.contracts.registry import REGISTRY_COMMANDS
from towpath.contracts.standby import STANDBY_COMMANDS
from towpath.contracts.storage import VALUE_COMMANDS
from towpath.contracts.traces import TRACE_COMMANDS
from towpath.contracts.upgrade import UPGRADE_COMMANDS
from towpath.contracts.uplink import UPLINK_COMMANDS

CLIENT_COMMANDS: tuple[type[Command[Any]], ...] = (
    *COORDINATOR_COMMANDS,
    *PIPELINE_COMMANDS,
    *UPLINK_COMMANDS,
    *BROADCAST_COMMANDS,
    *PLAN_COMMANDS,
    *REGISTRY_COMMANDS,
    *COORDINATORS_COMMANDS,
    *UPGRADE_COMMANDS,
    *STANDBY_COMMANDS,
    *LINK_COMMANDS,
    *FAULT_COMMANDS,
    *METRIC_COMMANDS,
    *TRACE_COMMANDS,
    *VALUE_COMMANDS,
    *PLACEMENT_COMMANDS,
    *AUTOPILOT_COMMANDS,
    *RESULT_COMMANDS,
)
