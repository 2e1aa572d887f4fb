"""The command and event reference for people: `contracts/REFERENCE.md`."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from pydantic import BaseModel

from towpath.contracts.autopilot import AUTOPILOT_COMMANDS
from towpath.contracts.broadcast import BROADCAST_COMMANDS, SITE_BROADCAST_COMMANDS, BroadcastState
from towpath.contracts.commands import COORDINATOR_COMMANDS, ConsistencyCheck, OperationState, StrategyName
from towpath.contracts.coordinators import COORDINATORS_COMMANDS
from towpath.contracts.data_model import DataModel
from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.device_commands import DEVICE_COMMANDS
from towpath.contracts.engine import ENGINE_COMMANDS
from towpath.contracts.errors import RETRYABLE, ErrorCode, ErrorDetail
from towpath.contracts.events import EVENTS_STREAM
from towpath.contracts.export.field_types import OPERATORS, cell, default_of, named_types, type_of
from towpath.contracts.fault_commands import FAULT_COMMANDS, RULE_COMMANDS, RuleEnd
from towpath.contracts.faults import DataPoint, Rule, TargetKind
from towpath.contracts.job import JobSpec, JobState
from towpath.contracts.joining import JOINING_COMMANDS
from towpath.contracts.links import LINK_COMMANDS
from towpath.contracts.live import RESULT_COMMANDS
from towpath.contracts.local_commands import LOCAL_COMMANDS
from towpath.contracts.message import Command, Message
from towpath.contracts.metrics import METRIC_COMMANDS, SITE_METRIC_COMMANDS, Aggregation
from towpath.contracts.metrics_table import METRICS_TABLE, EntityKind, MetricKind
from towpath.contracts.monitor import MONITOR_COMMANDS
from towpath.contracts.operators import AggregateFunction, WindowShape
from towpath.contracts.pipeline import Action, ApplyState, ChangeState, PipelineSpec
from towpath.contracts.pipeline_commands import PIPELINE_COMMANDS
from towpath.contracts.placement import PLACEMENT_COMMANDS
from towpath.contracts.plan import DeploymentPlan, TaskKind
from towpath.contracts.plan_commands import PLAN_COMMANDS
from towpath.contracts.plan_rollout import DeviceState, RolloutState, VersionKind
from towpath.contracts.prediction import PredictOutput, RollingFunction, Side, Unit
from towpath.contracts.reading import READING_COMMANDS
from towpath.contracts.registry import REGISTRY_COMMANDS
from towpath.contracts.reply import Reply
from towpath.contracts.result import Rejected, Result
from towpath.contracts.site import BrokerKind, Durability, MeshSpec, SiteState
from towpath.contracts.site_commands import SITE_COMMANDS
from towpath.contracts.standby import SITE_STANDBY_COMMANDS, STANDBY_COMMANDS
from towpath.contracts.storage import SITE_VALUE_COMMANDS, VALUE_COMMANDS
from towpath.contracts.traces import TRACE_COMMANDS, SpanKind
from towpath.contracts.upgrade import SITE_UPGRADE_COMMANDS, UPGRADE_COMMANDS
from towpath.contracts.uplink import (
    SITE_UPLINK_COMMANDS,
    UPLINK_COMMANDS,
    LateEvents,
    UplinkOrder,
    UplinkSpec,
    UplinkStart,
    UplinkState,
)

HEAD = """\
# Reference

Every command, event and specification. This page is generated from the models
(`python -m towpath.contracts.export`); the same is written for programs in `schemas/` (JSON Schema),
`asyncapi.json` (AsyncAPI 3.0) and `examples/` (one valid message each).

A **command** is a NATS request on its subject; the answer is an envelope: `{"ok": true, "result": …}` or
`{"ok": false, "error": …}`. A command may also be published without waiting: its outcome then comes as
an event. Commands are idempotent: sending one twice with the same `id` has the effect of sending it
once. Bodies are JSON in UTF-8. An unknown field is an error. Times are ISO 8601 in UTC.
"""

ENUMERATIONS: tuple[type[Enum], ...] = (
    StrategyName,
    ConsistencyCheck,
    OperationState,
    JobState,
    SiteState,
    Durability,
    BrokerKind,
    Action,
    ApplyState,
    ChangeState,
    TaskKind,
    VersionKind,
    RolloutState,
    DeviceState,
    WindowShape,
    AggregateFunction,
    RollingFunction,
    Side,
    Unit,
    PredictOutput,
    DataPoint,
    TargetKind,
    RuleEnd,
    MetricKind,
    EntityKind,
    Aggregation,
    SpanKind,
    UplinkOrder,
    LateEvents,
    UplinkStart,
    UplinkState,
    BroadcastState,
)


SPECIFICATIONS: tuple[type[BaseModel], ...] = (
    JobSpec,
    PipelineSpec,
    DataModel,
    DeploymentPlan,
    DeviceCatalogue,
    MeshSpec,
    UplinkSpec,
    Rule,
    Result,
    Rejected,
)


def reference(commands: Sequence[type[Command[Any]]], events: Sequence[type[Message]]) -> str:
    """The whole page. `commands` are all commands; `events` are all that the mesh says unasked."""
    return "\n".join(
        [
            HEAD,
            _messages("Commands for everybody", "Served by the coordinator.", COORDINATOR_COMMANDS),
            _messages(
                "Commands for pipelines", "Served by the coordinator, like those for jobs.", PIPELINE_COMMANDS
            ),
            _messages("Commands for uplinks", "Served by the coordinator.", UPLINK_COMMANDS),
            _messages("Commands for broadcasts", "Served by the coordinator.", BROADCAST_COMMANDS),
            _messages("Commands for standbys", "Served by the coordinator.", STANDBY_COMMANDS),
            _messages("Commands for the registry", "Served by the coordinator.", REGISTRY_COMMANDS),
            _messages("Which coordinator leads", "Served by the coordinator.", COORDINATORS_COMMANDS),
            _messages("Upgrades of sites", "Served by the coordinator.", UPGRADE_COMMANDS),
            _messages(
                "Commands for deployment plans",
                "Served by the coordinator. Plan and catalogue are described with the specifications.",
                PLAN_COMMANDS,
            ),
            _messages(
                "Commands for links",
                "Served by the process `links` of a mesh whose setting `emulate_links` is true.",
                LINK_COMMANDS,
            ),
            _messages("Commands for faults", "Served by the injector.", FAULT_COMMANDS),
            _messages(
                "Commands for metrics, stored values, placement, traces and results",
                "Served by the collector.",
                (*METRIC_COMMANDS, *VALUE_COMMANDS, *PLACEMENT_COMMANDS, *TRACE_COMMANDS, *RESULT_COMMANDS),
            ),
            _messages(
                "Commands for the autopilot",
                "Served by the autopilot of a mesh whose setting `autopilot.mode` is not `off`.",
                AUTOPILOT_COMMANDS,
            ),
            _messages(
                "Commands at a site",
                "Served by the site's agent, at the site's own server, to the site's operator: they need no "
                "hub.",
                LOCAL_COMMANDS,
            ),
            _metrics(),
            _messages(
                "Events",
                f"Kept in the stream `{EVENTS_STREAM}` of the hub: a late subscriber can replay them. "
                "What rules measure and the heartbeat of a site, at the end, are not kept there; spans have "
                "streams of their own.",
                events,
            ),
            _messages(
                "Protocol commands between services",
                "From the coordinator to the agents of the sites and to the monitor, from an agent to "
                "its engine, from injector and collector to agents, from the collector to storages, and "
                "from a machine that joins to the supervisor. "
                "`PROTOCOL.md` says in which order. They are no interface for users.",
                (
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
                ),
            ),
            _specifications(),
            _operators(),
            _errors(),
            _types(commands, events),
        ]
    )


def _metrics() -> str:
    """The table of all metrics."""
    rows = [f"| `{m.name}` | `{m.unit}` | {m.kind} | {m.entity} | {m.meaning} |" for m in METRICS_TABLE]
    return "\n".join(
        [
            "## Metrics\n",
            "Names and units as OpenTelemetry has them; where they are exported, `towpath.` stands before "
            "the name, and Prometheus has them in its own spelling. What is about what:\n",
            "| metric | unit | kind | of a | meaning |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _messages(title: str, introduction: str, kinds: Iterable[type[Message]]) -> str:
    return "\n".join([f"## {title}\n", f"{introduction}\n", *(_message(kind) for kind in kinds)])


def _message(kind: type[Message]) -> str:
    parts = [f"### {kind.__name__}\n", f"{_documentation(kind)}\n", f"Subject: `{kind.subject}`\n"]
    parts.append(_fields(kind))
    if issubclass(kind, Command):
        parts.append(f"Reply: [{kind.answer.__name__}](#{kind.answer.__name__.lower()})\n")
    parts.append("```json\n" + json.dumps(kind.example, ensure_ascii=False, indent=2) + "\n```\n")
    return "\n".join(parts)


def _specifications() -> str:
    parts = ["## Specifications\n", "Files that users write, and what jobs publish on their topics.\n"]
    for kind in SPECIFICATIONS:
        parts += [f"### {kind.__name__}\n", f"{_documentation(kind)}\n", _fields(kind)]
    return "\n".join(parts)


def _operators() -> str:
    parts = ["## Operator parameters\n", "The `operator` of a job; `kind` says which.\n"]
    for kind in OPERATORS:
        parts += [f"### Operator `{kind.model_fields['kind'].default}`\n", f"{_documentation(kind)}\n"]
        parts.append(_fields(kind))
    return "\n".join(parts)


def _errors() -> str:
    meanings = member_documentation(ErrorCode)
    rows = [
        f"| `{code.value}` | {'yes' if code in RETRYABLE else 'no'} | {cell(meanings.get(code.name, ''))} |"
        for code in ErrorCode
    ]
    return "\n".join(
        [
            "## Errors\n",
            "The same detail on NATS, REST and the command line.\n",
            "### ErrorDetail\n",
            f"{_documentation(ErrorDetail)}\n",
            _fields(ErrorDetail),
            "| code | may the same request succeed later? | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _types(commands: Sequence[type[Command[Any]]], events: Sequence[type[Message]]) -> str:
    """Answers and the models they are made of, and the words of enumerations."""
    shown = {kind.__name__ for kind in (*commands, *events, *SPECIFICATIONS, *OPERATORS, ErrorDetail)}
    parts = ["## Types\n", "Answers, and what messages and specifications are made of.\n"]
    roots: list[type[BaseModel]] = [command.answer for command in commands]
    for kind in named_types([*roots, *commands, *events, *SPECIFICATIONS, Reply[Any]]):
        if kind.__name__ not in shown:
            parts += [f"### {kind.__name__}\n", f"{_documentation(kind)}\n", _fields(kind)]
    for enumeration in ENUMERATIONS:
        parts.append(_enumeration(enumeration))
    return "\n".join(parts).rstrip() + "\n"


def _enumeration(kind: type[Enum]) -> str:
    meanings = member_documentation(kind)
    rows = [f"| `{member.value}` | {cell(meanings.get(member.name, ''))} |" for member in kind]
    table = ["| value | meaning |", "|---|---|", *rows, ""]
    return "\n".join([f"### {kind.__name__}\n", f"{_documentation(kind)}\n", *table])


def _fields(kind: type[BaseModel]) -> str:
    schema = kind.model_json_schema()
    if not schema.get("properties"):
        return "No fields.\n"
    required = schema.get("required", [])
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, content in schema["properties"].items():
        default = "required" if name in required else default_of(content)
        meaning = cell(content.get("description", ""))
        rows.append(f"| `{name}` | {cell(type_of(content, schema))} | {cell(default)} | {meaning} |")
    return "\n".join([*rows, ""])


def _documentation(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def member_documentation(kind: type[Enum]) -> dict[str, str]:
    """Docstrings below the members of an enumeration, by name; Python itself drops them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            found[statement.targets[0].id] = inspect.cleandoc(str(following.value.value))
    return found
