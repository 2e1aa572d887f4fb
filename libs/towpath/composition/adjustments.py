"""Decide if a site may adjust a job of its own: the job keeps its state, and its readers need not know.

The site asks here while the hub is out of reach. The coordinator asks before the registry adopts the change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from towpath.composition.field_changes import field_changes
from towpath.composition.job_changes import is_state_compatible
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.job import Input, JobSpec, ResolvedInput
from towpath.contracts.message import AUTO_SITE
from towpath.operators.kind import kind_of, user_code

AT_THE_HUB = "as it is; at the hub it may change"

SAID_OF_AN_INPUT = ("identity", "repeats_within", "on_loss", "format", "sample", "thinning")
"""Fields of an input that leave the stream as it is. A running job may change them."""


_FIXED = {
    "name": "another job",
    "inputs": "another input",
    "output": "another output",
    "container": "another engine",
}
"""Field of a job → what needs the hub if it changes."""


def complete(spec: JobSpec, old: JobSpec | None = None) -> JobSpec:
    """Return the spec with its output site written out: a change of `site` does not move the output."""
    site = spec.output.site or (old.output_site if old else spec.output_site)
    return spec.model_copy(update={"output": spec.output.model_copy(update={"site": site})})


def stationary(wanted: JobSpec, old: JobSpec, site: str) -> JobSpec:
    """Return the new spec at the old sites. The job runs at `site`, and ran first where `old` says.

    With `site: auto` it stays, too. Raises `TowpathError` (not allowed) when it names others.
    """
    if wanted.site not in (old.site, site, AUTO_SITE):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "update does not change the site; `migrate` does",
            field="site",
            value=wanted.site,
            allowed=sorted({old.site, site}),
        )
    return complete(wanted, old).model_copy(update={"site": old.site})


def state_is_lost(job: str, allowed: str) -> TowpathError:
    """Return the refusal of a change that the job's state does not survive."""
    return TowpathError(
        ErrorCode.NOT_ALLOWED,
        f"the state of {job} does not survive this change of its operator",
        field="operator",
        allowed=allowed,
    )


def adjusted(wanted: JobSpec, old: JobSpec, site: str) -> JobSpec:
    """Return the job as it will run at `site`, where it runs as `old`.

    Raises `TowpathError` for a change that the site cannot make alone, with all reasons in `detail.errors`.
    """
    new = stationary(wanted, old, site)
    if not is_state_compatible(old, new):
        raise state_is_lost(
            old.name, "the same computation; at the hub, drop_state = true begins with empty state"
        )
    found = [*_obstacles(old, new)]
    if found:
        raise TowpathError(
            found[0].code,
            found[0].message,
            field=found[0].field,
            value=found[0].value,
            allowed=found[0].allowed,
            errors=found if len(found) > 1 else (),
        )
    return new


def inputs_of(spec: JobSpec, inputs: list[ResolvedInput]) -> list[ResolvedInput]:
    """Return the streams that a job reads, with what its spec says of them now."""
    said = {entry.name: entry for entry in spec.inputs}
    return [entry.model_copy(update=_said(said[entry.name.split("#")[0]])) for entry in inputs]


def _said(entry: Input) -> dict[str, Any]:
    said = {field: getattr(entry, field) for field in SAID_OF_AN_INPUT}
    return said if entry.identity else said | {"repeats_within": 0}


def _obstacles(old: JobSpec, new: JobSpec) -> Iterator[ErrorDetail]:
    """Yield what only the coordinator can change: it knows streams, readers, code and images."""
    for change in field_changes(old, new):
        part, _, of_input = change.path.partition("].")
        needs = _FIXED.get(re.split(r"[.[]", part)[0])
        if needs is not None and not of_input.startswith((*SAID_OF_AN_INPUT, "start")):
            yield _refused(change.path, change.new, f"{needs} needs the hub")
    if _code(old) != _code(new):
        yield _refused("operator.artefact", None, "other code needs the hub, which keeps it")
    if kind_of(old.operator).writes(old.operator) != kind_of(new.operator).writes(new.operator):
        yield _refused("operator", None, "other fields of results need the hub, which knows their readers")


def _code(spec: JobSpec) -> tuple[str, str | None] | None:
    code = user_code(spec.operator)
    return None if code is None else (code.entry, code.artefact)


def _refused(field: str, value: Any, why: str) -> ErrorDetail:
    value = value if isinstance(value, str | int | float | bool) else None
    return ErrorDetail(code=ErrorCode.NOT_ALLOWED, message=why, field=field, value=value, allowed=AT_THE_HUB)
