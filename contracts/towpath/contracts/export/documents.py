"""All exported files by name, as text. A pure function of the models, so that drift can be detected."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel

from towpath.contracts.autopilot import AUTOPILOT_EVENTS
from towpath.contracts.broadcast import BROADCAST_EVENTS, SITE_BROADCAST_COMMANDS
from towpath.contracts.client_commands import CLIENT_COMMANDS
from towpath.contracts.coordinators import CoordinatorLeads
from towpath.contracts.data_model import DataModel
from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.device_commands import DEVICE_COMMANDS, DeviceChanged
from towpath.contracts.engine import ENGINE_COMMANDS
from towpath.contracts.events import EVENTS
from towpath.contracts.export.asyncapi import asyncapi
from towpath.contracts.export.openapi import openapi
from towpath.contracts.export.reference import reference
from towpath.contracts.fault_commands import FAULT_EVENTS, RULE_COMMANDS
from towpath.contracts.faults import Rule
from towpath.contracts.job import JobSpec
from towpath.contracts.joining import JOINING_COMMANDS
from towpath.contracts.links import LINK_EVENTS
from towpath.contracts.local_commands import LOCAL_COMMANDS
from towpath.contracts.message import Command, Message
from towpath.contracts.metrics import METRICS, SITE_METRIC_COMMANDS
from towpath.contracts.monitor import MONITOR_COMMANDS
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.pipeline_commands import PIPELINE_EVENTS
from towpath.contracts.plan import DeploymentPlan
from towpath.contracts.plan_commands import PLAN_EVENTS
from towpath.contracts.reading import READING_COMMANDS
from towpath.contracts.reply import Reply
from towpath.contracts.result import Rejected, Result
from towpath.contracts.scenario import Scenario
from towpath.contracts.site import MeshSpec, SiteStatus
from towpath.contracts.site_commands import SITE_COMMANDS
from towpath.contracts.standby import SITE_STANDBY_COMMANDS
from towpath.contracts.storage import SITE_VALUE_COMMANDS
from towpath.contracts.topology import Topology
from towpath.contracts.traces import SPANS
from towpath.contracts.upgrade import SITE_UPGRADE_COMMANDS
from towpath.contracts.uplink import SITE_UPLINK_COMMANDS, UplinkSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"

COMMANDS: tuple[type[Command[Any]], ...] = (
    *CLIENT_COMMANDS,
    *SITE_COMMANDS,
    *DEVICE_COMMANDS,
    *MONITOR_COMMANDS,
    *ENGINE_COMMANDS,
    *RULE_COMMANDS,
    *SITE_METRIC_COMMANDS,
    *SITE_VALUE_COMMANDS,
    *SITE_UPLINK_COMMANDS,
    *SITE_BROADCAST_COMMANDS,
    *SITE_STANDBY_COMMANDS,
    *SITE_UPGRADE_COMMANDS,
    *JOINING_COMMANDS,
    *READING_COMMANDS,
    *LOCAL_COMMANDS,
)
ALL_EVENTS = (
    *EVENTS,
    *PIPELINE_EVENTS,
    *PLAN_EVENTS,
    *BROADCAST_EVENTS,
    DeviceChanged,
    CoordinatorLeads,
    *LINK_EVENTS,
    *FAULT_EVENTS,
    *AUTOPILOT_EVENTS,
)
UNASKED: tuple[type[Message], ...] = (*ALL_EVENTS, *METRICS, *SPANS, SiteStatus)
"""All that the mesh says of itself."""

MESSAGES: tuple[type[Message], ...] = (*COMMANDS, *UNASKED)
"""Everything that has a subject of its own."""

SPECS: tuple[type[BaseModel], ...] = (
    JobSpec,
    PipelineSpec,
    DataModel,
    DeploymentPlan,
    DeviceCatalogue,
    MeshSpec,
    UplinkSpec,
    Rule,
    Scenario,
    Topology,
    Result,
    Rejected,
)
"""Documents without a subject of their own: files of users, and what jobs publish on topics."""

OWNED_FOLDERS = ("schemas", "examples")
"""Folders whose JSON files all come from here: a file of a message that no longer exists is drift."""


def file_name(kind: type[BaseModel]) -> str:
    """`DeployJob` → `deploy-job`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


def documents() -> dict[str, str]:
    """Name of each exported file, relative to `contracts/`, and its whole text."""
    files = {f"schemas/{file_name(kind)}.schema.json": _schema(kind) for kind in (*MESSAGES, *SPECS)}
    for answer in {command.answer.__name__: command.answer for command in COMMANDS}.values():
        files[f"schemas/reply-{file_name(answer)}.schema.json"] = _schema(Reply[answer])
    files |= {f"examples/{file_name(kind)}.json": _text(kind.example) for kind in MESSAGES}
    files["asyncapi.json"] = _text(asyncapi(COMMANDS, (*ALL_EVENTS, *METRICS, SiteStatus)))
    files["openapi.json"] = _text(openapi())
    files["REFERENCE.md"] = reference(COMMANDS, UNASKED)
    return files


def _schema(kind: type[BaseModel]) -> str:
    return _text({"$schema": DIALECT, **kind.model_json_schema()})


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
