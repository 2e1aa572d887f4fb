"""Rules at work in the process of a test, without a file or a board."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from towpath.contracts.faults import LoadedRule, Rule, RuleReport, RuleSet
from towpath.contracts.message import now
from towpath.hooks.points import Items
from towpath.lab.faults.point_rule import PointRule
from towpath.lab.faults.reports import Reports
from towpath.lab.faults.rule_at_work import ProcessContext

LEASE_S = 60.0


def loaded(
    event: dict[str, Any], *actions: dict[str, Any], condition: str = "true", version: int = 1, **more: Any
) -> LoadedRule:
    """Return a rule, named `rule` unless `name` says otherwise. Each action is a fault with parameters."""
    return LoadedRule(
        rule=Rule.model_validate(
            {
                "name": "rule",
                "event": event,
                "condition": condition,
                "actions": [
                    {"fault": each["fault"], "parameters": {k: v for k, v in each.items() if k != "fault"}}
                    for each in actions
                ],
                **more,
            }
        ),
        version=version,
        loaded_at=now(),
    )


@dataclass
class Bench:
    """One process, and what its rules reported."""

    directory: Path

    def __post_init__(self) -> None:
        self.reports = Reports(self.directory / "reports.jsonl")

    def active(self, rule: LoadedRule) -> PointRule:
        made = PointRule(rule, ProcessContext("jfk", "jfk-engine"), self.reports)
        made.expires_at = time.time() + LEASE_S
        return made

    def reported(self) -> list[RuleReport]:
        self.reports.flush()
        return read_reports(self.directory / "reports.jsonl")


def read_reports(file: Path) -> list[RuleReport]:
    if not file.exists():
        return []
    return [RuleReport.model_validate_json(line) for line in file.read_text().splitlines()]


def reports_of(directory: Path, process: str, pid: int) -> list[RuleReport]:
    """Return what a process has reported so far."""
    return [each for file in directory.glob(f"{process}-*-{pid}.jsonl") for each in read_reports(file)]


def write_rules(file: Path, *rules: LoadedRule, lease_s: float = LEASE_S, revision: int = 1) -> None:
    """Write a rule file as a keeper does."""
    content = RuleSet(scope=file.stem, revision=revision, expires_at=time.time() + lease_s, rules=list(rules))
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(content.model_dump_json())
    part.replace(file)


@dataclass(frozen=True)
class Parcel:
    """An event that passes fault points in tests."""

    serial: int
    body: bytes


PARCELS: Items[Parcel] = Items(
    payload=lambda parcel: parcel.body,
    fields=lambda parcel: {"serial": parcel.serial},
    with_payload=lambda parcel, body: replace(parcel, body=body),
)


def parcels(count: int) -> list[Parcel]:
    """Return parcels with serial numbers from 1; each holds its number as JSON."""
    return [Parcel(n, json.dumps({"n": n}).encode()) for n in range(1, count + 1)]


def serials(passed: Any) -> list[int]:
    return [parcel.serial for parcel in passed]
