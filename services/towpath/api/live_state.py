"""The state of the mesh as the live page knows it: what differs from what was told before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from towpath.contracts.commands import JobView, OperationView
from towpath.contracts.faults import RuleView
from towpath.contracts.live import LiveChange, LiveJob, LiveSite
from towpath.contracts.metrics import Series
from towpath.contracts.site import SiteStatus

SECTIONS = tuple(name for name in LiveChange.model_fields if name != "at")

Entries = Mapping[str, Any]
"""Key → what JSON says of it."""


class LiveState:
    """What clients have been told, by section of `LiveChange` and key."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}

    def everything(self) -> dict[str, Entries]:
        """All that is known: the snapshot for a client that comes."""
        return {section: dict(entries) for section, entries in self._told.items()}

    def replace(self, section: str, entries: Entries) -> dict[str, Entries]:
        """Take over what a section is now. Returns what differs, with null for what is gone."""
        told = self._told[section]
        changed = {key: entry for key, entry in entries.items() if told.get(key, ...) != entry}
        gone = dict.fromkeys(told.keys() - entries.keys())
        self._told[section] = dict(entries)
        return {section: changed | gone} if changed or gone else {}

    def note(self, service: str, problem: str | None) -> dict[str, Entries]:
        """Take over whether a service answers. Returns what differs."""
        known = self._told["unanswered"]
        entries = {name: why for name, why in known.items() if name != service}
        return self.replace("unanswered", entries if problem is None else entries | {service: problem})


def sites_told(sites: Iterable[SiteStatus]) -> Entries:
    """Sites by name, without what a heartbeat changes each time."""
    return {site.site: _part(LiveSite, site) for site in sites}


def jobs_told(jobs: Iterable[JobView]) -> Entries:
    """Jobs by name, without how they go."""
    return {job.spec.name: _part(LiveJob, job) for job in jobs}


def statuses_told(jobs: Iterable[JobView]) -> Entries:
    """How jobs go, by name."""
    return {job.spec.name: job.status.model_dump(mode="json") for job in jobs if job.status is not None}


def operations_told(operations: Iterable[OperationView]) -> Entries:
    """Operations by id."""
    return {view.operation: view.model_dump(mode="json") for view in operations}


def rules_told(rules: Iterable[RuleView]) -> Entries:
    """Fault rules by name."""
    return {view.rule.name: view.model_dump(mode="json") for view in rules}


def values_told(series: Iterable[Series]) -> Entries:
    """The newest sample of each series, by `site/entity/metric`."""
    return {f"{s.site}/{s.entity}/{s.metric}": list(s.points[-1]) for s in series if s.points}


def _part(kind: type[LiveSite | LiveJob], whole: SiteStatus | JobView) -> Any:
    return whole.model_dump(mode="json", include=set(kind.model_fields))
