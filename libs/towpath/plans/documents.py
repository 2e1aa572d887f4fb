"""Read deployment plans and catalogues of devices from YAML and JSON.

A plan may be in Towpath's own format, with `plan` and `operations`, or in that of the thesis (see
`template`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from towpath.composition.texts import load
from towpath.composition.violations import all_at_once, violations
from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.contracts.plan import DeploymentPlan, PlanWarning
from towpath.plans.findings import Findings
from towpath.plans.template import read_template
from towpath.plans.template_text import is_template

Document = TypeVar("Document", bound=Model)


@dataclass(frozen=True)
class ReadPlan:
    """A plan, and the places of its document that did not say what they mean."""

    plan: DeploymentPlan
    warnings: list[PlanWarning]
    operations: list[str] = field(default_factory=list)
    """Paths of the operations in the document, where these are not `operations[0]` and so on."""

    def place(self, path: str) -> str:
        """Return the place in the document of a field of the plan."""
        found = re.match(r"operations\[(\d+)\]\.?", path)
        if found is None or not self.operations:
            return path
        return f"{self.operations[int(found[1])]} ({path[found.end() :]})"


def read_plan(text: str, *, name: str | None = None, otherwise: str = "plan") -> ReadPlan:
    """Return the plan that a document describes.

    It is called `name`. If that is None, it is called as the document says, or `otherwise` if that says
    nothing: the thesis's template has no names.

    Raises `TowpathError` (invalid) with all errors in `detail.errors`.
    """
    findings = Findings()
    if is_template(text):
        plan, places = read_template(text, name or otherwise, findings)
        return ReadPlan(plan, findings.warnings, places)
    content = load(text)
    if not isinstance(content, dict) or "operations" not in content:
        raise TowpathError(
            ErrorCode.INVALID,
            "this describes no deployment plan",
            allowed="`plan:` and `operations:`, or the thesis's `Computation`",
        )
    if name is not None or "plan" not in content:
        content = {**content, "plan": name or otherwise}
    return ReadPlan(_valid(DeploymentPlan, content, "the plan"), [])


def read_catalogue(text: str) -> DeviceCatalogue:
    """Return the catalogue in a document. Raises `TowpathError` (invalid) with all errors."""
    catalogue = _valid(DeviceCatalogue, load(text), "the catalogue")
    findings = Findings()
    seen: dict[str, int] = {}
    for position, device in enumerate(catalogue.devices):
        if seen.setdefault(device.id, position) != position:
            place = f"devices[{position}].id"
            findings.refuse(place, f"devices[{seen[device.id]}] also has this id", device.id, "another id")
    findings.raise_errors("the catalogue")
    return catalogue


def _valid(kind: type[Document], content: Any, what: str) -> Document:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise all_at_once(violations(error, content), what) from error
