"""The mesh's state as the live page has it, and its difference from the state sent before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from towpath.contracts.autopilot import AutopilotSpec, AutopilotStatus
from towpath.contracts.commands import JobView, LiveJob, OperationView
from towpath.contracts.fault_commands import RuleView
from towpath.contracts.live import LiveAutopilot, LiveChange, LiveSite
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Series
from towpath.contracts.site import SiteStatus
from towpath.contracts.standby import StandbyView

SECTIONS = tuple(name for name in LiveChange.model_fields if name != "at")

Entries = Mapping[str, Any]
"""Key → its JSON."""


class LiveState:
    """State that clients have received, by section of `LiveChange` and key."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}

    def everything(self) -> dict[str, Entries]:
        """Return the whole state: the snapshot for a new client."""
        return {section: dict(entries) for section, entries in self._told.items()}

    def replace(self, section: str, entries: Entries) -> dict[str, Entries]:
        """Set a section's entries. Return those that differ, with null for removed ones."""
        told = self._told[section]
        changed = {key: entry for key, entry in entries.items() if told.get(key, ...) != entry}
        gone = dict.fromkeys(told.keys() - entries.keys())
        self._told[section] = dict(entries)
        return {section: changed | gone} if changed or gone else {}

    def note(self, service: str, problem: str | None) -> dict[str, Entries]:
        """Set whether a service answers. Return entries that differ."""
        known = self._told["unanswered"]
        entries = {name: why for name, why in known.items() if name != service}
        return self.replace("unanswered", entries if problem is None else entries | {service: problem})


def sites_told(sites: Iterable[SiteStatus]) -> Entries:
    """Return sites by name, without the fields that change with each heartbeat."""
    return {site.site: _part(LiveSite, site) for site in sites}


def jobs_told(jobs: Iterable[JobView]) -> Entries:
    """Return jobs by name, without their status."""
    return {job.spec.name: _part(LiveJob, job) for job in jobs}


def statuses_told(jobs: Iterable[JobView]) -> Entries:
    """Return jobs' status by name."""
    return {job.spec.name: job.status.model_dump(mode="json") for job in jobs if job.status is not None}


def standbys_told(standbys: Iterable[StandbyView]) -> Entries:
    """Return standbys by the names of their jobs."""
    return {view.job: view.model_dump(mode="json") for view in standbys}


def operations_told(operations: Iterable[OperationView]) -> Entries:
    """Return operations by id."""
    return {view.operation: view.model_dump(mode="json") for view in operations}


def rules_told(rules: Iterable[RuleView]) -> Entries:
    """Return fault rules by name."""
    return {view.rule.name: view.model_dump(mode="json") for view in rules}


def values_told(series: Iterable[Series]) -> Entries:
    """Return the newest sample of each series, by `site/entity/metric`."""
    return {f"{s.site}/{s.entity}/{s.metric}": list(s.points[-1]) for s in series if s.points}


def autopilot_told(spec: AutopilotSpec, status: AutopilotStatus | None) -> dict[str, Entries]:
    """Return the sections of the autopilot. One that is off has no status."""
    found = status or AutopilotStatus(mode=spec.mode, policy=spec.policy, latency_s=spec.latency_s)
    kept = found.model_dump(include={"mode", "policy", "latency_s", "looked", "trouble"})
    live = LiveAutopilot(**kept, horizon_s=spec.horizon_s)
    return {
        "autopilot": {HUB_SCOPE: live.model_dump(mode="json")},
        "windows": {each.window: each.model_dump(mode="json") for each in found.windows},
        "decisions": {each.decision: each.model_dump(mode="json") for each in found.decisions},
    }


def _part(kind: type[LiveSite | LiveJob], whole: SiteStatus | JobView) -> Any:
    return whole.model_dump(mode="json", include=set(kind.model_fields))
