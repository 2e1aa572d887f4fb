"""Read the thesis's template of deployment plans (Listings 3.1 and A.1) as it is printed.

Every value there is a text, and every object a list of objects with one key. Misspelled keys and words,
swapped coordinates and names that do not meet are read as they are meant, and each is a warning.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from towpath.composition.paths import in_brackets
from towpath.contracts.errors import TowpathError
from towpath.contracts.plan import DEVICE_PATTERN, DeploymentPlan, Operation, TaskKind
from towpath.contracts.quantity import bytes_of, gigahertz_of
from towpath.plans.findings import Findings, Path
from towpath.plans.template_keys import (
    ARGUMENTS,
    COMPUTATION,
    LOCATION,
    METADATA,
    NEAR_DEGREES,
    NODE,
    OPERATION,
    PLACEMENT,
    RESOURCES,
    SOFTWARE,
    TASK,
    TASKS,
    THESIS_CITY,
    WORDS,
    Found,
    fields,
    listed,
    scalar,
)
from towpath.plans.template_names import DraftOperation, Name, connect
from towpath.plans.template_text import load_template


def read_template(text: str, name: str, findings: Findings) -> tuple[DeploymentPlan, list[str]]:
    """Return the plan that a template describes, called `name`, and the path of each operation in it.

    Raises `TowpathError` (invalid) with all errors in `detail.errors`.
    """
    content = load_template(text, findings)
    drafts = _Reading(findings).computation(content)
    outside = connect(drafts, findings)
    findings.raise_errors()
    try:
        operations = [Operation.model_validate(draft.body()) for draft in drafts]
        plan = DeploymentPlan(plan=name, operations=operations, outside=outside)
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error
    return plan, [in_brackets(draft.path) for draft in drafts]


class _Reading:
    """Reads one template and collects what it finds."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def computation(self, content: Any) -> list[DraftOperation]:
        """Return the operations with their placement."""
        parts, path = content, ()
        if isinstance(content, dict) and len(content) == 1 and _is(next(iter(content)), "computation"):
            key = next(iter(content))
            parts, path = content[key], (key,)
        drafts: list[DraftOperation] = []
        placements: list[tuple[Any, Path]] = []
        for part, place in listed(parts, path):
            for kind, found in fields(part, place, COMPUTATION, self._findings).items():
                if kind == "operation":
                    drafts.append(self._operation(found))
                else:
                    placements += listed(found.value, found.path)
        self._place(drafts, placements)
        return drafts

    def _operation(self, operation: Found) -> DraftOperation:
        found = self._fields(operation, OPERATION)
        task = self._task(found.get("task", Found([], operation.path)))
        identifier = self._text(found.get("OP-ID"), operation.path, "an operation's id", DEVICE_PATTERN)
        node = self._fields(found.get("node"), NODE)
        metadata = self._metadata(node.get("metadata"))
        return DraftOperation(
            id=identifier,
            path=operation.path,
            application=_application(task, identifier),
            runs_on={
                "metadata": metadata,
                "software": self._software(node.get("software_stack")),
                "resources": self._resources(node.get("resources")),
            },
            executes=task,
            sources=_names(found.get("source")),
            targets=_names(found.get("target")),
            node_id=metadata.get("id"),
        )

    def _metadata(self, node: Found | None) -> dict[str, Any]:
        found = self._fields(node, METADATA, other=True)
        body: dict[str, Any] = {
            key.lower(): str(found[key].value) for key in ("ID", "type", "model") if key in found
        }
        if "location" in found:
            body["place"] = self._location(found["location"])
        others = {key: str(value.value) for key, value in found.items() if key not in METADATA}
        return {**body, "other": others} if others else body

    def _location(self, location: Found) -> dict[str, Any]:
        if isinstance(location.value, str):
            return {"site": location.value}
        found = self._fields(location, LOCATION)
        try:
            degrees = {key: float(value.value) for key, value in found.items()}
        except (TypeError, ValueError):
            self._findings.refuse(location.path, "not a pair of degrees", None, "longitude and latitude")
            return {}
        if set(degrees) == set(LOCATION) and _is_swapped(degrees):
            right = {"latitude": degrees["longitude"], "longitude": degrees["latitude"]}
            self._findings.warn(location.path, "longitude and latitude are swapped", degrees, right)
            return right
        for key, most in (("latitude", 90), ("longitude", 180)):
            if abs(degrees.get(key, 0)) > most:
                self._findings.refuse(found[key].path, "no such place", degrees[key], f"-{most} to {most}")
                return {}
        return degrees

    def _software(self, node: Found | None) -> list[str]:
        found = self._fields(node, SOFTWARE)
        return [
            self._word(word, found[key].path)
            for key in SOFTWARE
            if key in found
            for word in _split(found[key].value)
        ]

    def _word(self, word: str, path: Path) -> str:
        right = WORDS.get(word, word)
        if right != word:
            self._findings.warn(path, "the word is misspelt", word, right)
        return right

    def _resources(self, node: Found | None) -> dict[str, Any]:
        found = self._fields(node, RESOURCES)
        body: dict[str, Any] = {}
        try:
            if "memory" in found:
                body["memory"] = bytes_of(found["memory"].value)
            if "CPU" in found:
                body |= self._cpu(found["CPU"])
        except ValueError as error:
            place = found["CPU" if "memory" in body or "memory" not in found else "memory"]
            self._findings.refuse(place.path, str(error), place.value, "4 vCPUs, 1.4 GHz, 1 GB")
        return body

    def _cpu(self, cpu: Found) -> dict[str, Any]:
        count = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(v?cpus?|v?cores?)?\s*", str(cpu.value), re.IGNORECASE)
        if count is None:
            return {"clock": gigahertz_of(cpu.value)}
        right = f"{count[1]} vCPUs"
        if count[2] not in (None, "vCPU", "vCPUs", "CPU", "CPUs", "cores"):
            self._findings.warn(cpu.path, "the unit is misspelt", cpu.value, right)
        return {"cpus": float(count[1])}

    def _task(self, node: Found) -> dict[str, Any]:
        found = self._fields(node, TASK)
        kind = self._kind(found.get("type"), node.path)
        body: dict[str, Any] = {"kind": kind}
        if "binary" in found:
            body["package"] = {"name": str(found["binary"].value)}
        elif kind is TaskKind.INSTALL:
            self._findings.refuse(node.path, "an installation needs a `binary`", None, "a package's name")
        if "arguments" in found and kind is not TaskKind.UNINSTALL:
            body["arguments"] = self._arguments(found["arguments"])
        return body

    def _kind(self, found: Found | None, path: Path) -> TaskKind:
        given = self._text(found, path, "a task's type")
        kind = TASKS.get(given.lower())
        if kind is None:
            if found is not None:
                self._findings.refuse(found.path, "no such task", given, [*TASKS])
            return TaskKind.INGESTION
        if found is not None and given.lower() == "deploy":
            self._findings.warn(found.path, "the text of the thesis says `install`", given, kind.value)
        return kind

    def _arguments(self, node: Found) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        for key, found in self._fields(node, (), other=True).items():
            right = ARGUMENTS.get(key, key)
            if right != key:
                self._findings.warn(found.path, "the argument is misspelt", key, right)
            if right in arguments:
                self._findings.refuse(found.path, "the argument is there twice", key, "each argument once")
            arguments[right] = scalar(found.value)
        return arguments

    def _place(self, drafts: list[DraftOperation], placements: list[tuple[Any, Path]]) -> None:
        known = {draft.id: draft for draft in drafts}
        for node, path in placements:
            found = fields(node, path, PLACEMENT, self._findings)
            identifier = self._text(found.get("OP-ID"), path, "an operation's id")
            if identifier not in known:
                place = found["OP-ID"].path if "OP-ID" in found else path
                self._findings.refuse(place, "no such operation", identifier, sorted(known))
            elif "P-ID" in found:
                known[identifier].devices += _names(found["P-ID"])
            else:
                self._findings.refuse(path, "the devices are missing", None, "`P ID` with names of devices")

    def _fields(self, node: Found | None, known: tuple[str, ...], *, other: bool = False) -> dict[str, Found]:
        return fields(node.value, node.path, known, self._findings, other=other) if node else {}

    def _text(self, found: Found | None, path: Path, what: str, pattern: str = ".+") -> str:
        text = str(found.value).strip() if found is not None else ""
        if not re.fullmatch(pattern, text):
            given = text if found is not None else None
            self._findings.refuse(found.path if found else path, f"{what} is needed here", given, pattern)
            return text or "unnamed"
        return text


def _is(key: str, word: str) -> bool:
    return key.strip().lower() == word


def _split(value: Any) -> list[str]:
    words = value if isinstance(value, list) else str(value).split(",")
    return [str(word).strip() for word in words if str(word).strip()]


def _names(found: Found | None) -> list[Name]:
    return [Name(text, found.path) for text in _split(found.value)] if found else []


def _application(task: dict[str, Any], identifier: str) -> str:
    """Return the name of the application: the package without its suffix, as `filter` of `filter.dp`."""
    package = task.get("package", {}).get("name", "")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", PurePosixPath(package).stem).strip("-._") or identifier


def _is_swapped(degrees: dict[str, float]) -> bool:
    latitude, longitude = degrees["longitude"], degrees["latitude"]
    if abs(latitude) > 90:
        return False
    if abs(degrees["latitude"]) > 90:
        return True
    there = (latitude - THESIS_CITY[0], longitude - THESIS_CITY[1])
    return max(map(abs, there)) < NEAR_DEGREES
