"""Find what the names in a template mean: it calls one thing by the node's ID, its device or a word."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from towpath.plans.findings import Findings, Path


@dataclass(frozen=True)
class Name:
    """A name and its place."""

    text: str
    path: Path


@dataclass
class DraftOperation:
    """An operation of a template before its names are known."""

    id: str
    path: Path
    application: str
    runs_on: dict[str, Any]
    executes: dict[str, Any]
    sources: list[Name]
    targets: list[Name]
    node_id: str | None
    devices: list[Name] = field(default_factory=list)
    reads_from: list[str] = field(default_factory=list)
    writes_to: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """All names that the template uses for it."""
        return {self.id, *([self.node_id] if self.node_id else []), *(name.text for name in self.devices)}

    def body(self) -> dict[str, Any]:
        """Return the operation as a document of Towpath's own format has it."""
        return {
            "id": self.id,
            "application": self.application,
            "runs_on": self.runs_on,
            "executes": self.executes,
            "reads_from": self.reads_from,
            "writes_to": self.writes_to,
            "placement": {"devices": [name.text for name in self.devices]},
        }


def connect(drafts: list[DraftOperation], findings: Findings) -> list[str]:
    """Set predecessors, successors and devices of all operations. Return the names outside the plan."""
    _check_ids(drafts, findings)
    for draft in drafts:
        _check_devices(draft, findings)
    meant = {(draft.id, name): _by_name(name, draft, drafts, findings) for draft, name in _ends(drafts)}
    outside: list[str] = []
    for draft in drafts:
        for names, set_to in ((draft.sources, draft.reads_from), (draft.targets, draft.writes_to)):
            for name in names:
                other = meant[draft.id, name] or _by_other_end(name, draft, drafts, meant, findings)
                if other is None:
                    findings.warn(
                        name.path, "no operation has this name: it is read as a name outside", name.text
                    )
                    outside.append(name.text)
                set_to.append(other or name.text)
    return [*dict.fromkeys(outside)]


def _ends(drafts: list[DraftOperation]) -> list[tuple[DraftOperation, Name]]:
    return [(draft, name) for draft in drafts for name in (*draft.sources, *draft.targets)]


def _check_ids(drafts: list[DraftOperation], findings: Findings) -> None:
    seen: set[str] = set()
    for draft in drafts:
        if draft.id in seen:
            findings.refuse(draft.path, "another operation has this id", draft.id, "another id")
        seen.add(draft.id)


def _check_devices(draft: DraftOperation, findings: Findings) -> None:
    """Compare the devices of the placement with the node's ID."""
    placed = [name.text for name in draft.devices]
    if not placed and draft.node_id:
        findings.warn(draft.path, "no placement: the node's ID is read as its device", None, draft.node_id)
        draft.devices = [Name(draft.node_id, draft.path)]
    elif not placed:
        findings.refuse(draft.path, "neither a placement nor a node's ID", None, "`Placement` with `P ID`")
    elif draft.node_id and draft.node_id not in placed:
        package = draft.executes.get("package", {}).get("name", "no package")
        findings.warn(
            draft.devices[0].path,
            f"operation {draft.id} has node ID {draft.node_id} and {package}: its devices have other names",
            ", ".join(placed),
            placed,
        )


def _by_name(
    name: Name, asking: DraftOperation, drafts: list[DraftOperation], findings: Findings
) -> str | None:
    """Return the operation that has this name, or this name but for zeros before its number."""
    others = [draft for draft in drafts if draft is not asking]
    for draft in others:
        if name.text in draft.names:
            return draft.id
    alike = [draft for draft in others if _plain(name.text) in map(_plain, draft.names)]
    if len(alike) != 1:
        return None
    findings.warn(name.path, f"operation {alike[0].id} has a name like this one", name.text, alike[0].id)
    return alike[0].id


def _by_other_end(
    name: Name,
    asking: DraftOperation,
    drafts: list[DraftOperation],
    meant: dict[tuple[str, Name], str | None],
    findings: Findings,
) -> str | None:
    """Return the one operation that names `asking` as its other end: a target's reader, a source's writer."""
    is_target = name in asking.targets
    naming = [
        draft
        for draft in drafts
        if draft is not asking
        and any(meant[draft.id, end] == asking.id for end in (draft.sources if is_target else draft.targets))
    ]
    if len(naming) != 1 or len(asking.targets if is_target else asking.sources) != 1:
        return None
    how = "reads from" if is_target else "writes to"
    findings.warn(name.path, f"only operation {naming[0].id} {how} this one", name.text, naming[0].id)
    return naming[0].id


def _plain(name: str) -> str:
    return re.sub(r"0*(\d+)", r"\1", name.lower())
