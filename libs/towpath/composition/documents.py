"""Read pipelines from YAML or JSON, in each of the accepted formats.

Towpath's own format has a `name` and a list `jobs`, each a `PipelineJob`. SpecK's list `jobs` is recognised
by its keys (see `speck`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from towpath.composition import speck
from towpath.composition.texts import load
from towpath.composition.violations import all_at_once, violations
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.message import NAME_PATTERN, Model, is_name
from towpath.contracts.pipeline import PipelineJob, PipelineName, PipelineSpec, PolicyName
from towpath.contracts.site import SiteStatus


@dataclass(frozen=True)
class ReadDocument:
    """A pipeline as it was read from a document."""

    spec: PipelineSpec
    place: Callable[[str], str]
    """Path of a field in `spec` → its path in the document, for example `jobs[3].sink_topic`."""


class _OwnDocument(Model):
    """Towpath's own format, before names are compared."""

    name: PipelineName | None = None
    jobs: list[PipelineJob]
    policy: PolicyName = PolicyName.PERFORMANCE


def read_document(
    text: str,
    *,
    name: str | None,
    sites: Sequence[SiteStatus],
    media_type: str | None = None,
    otherwise: str | None = None,
) -> ReadDocument:
    """Return the pipeline that a document describes.

    It is called `name`. If that is None, it is called as the document says, or `otherwise` if that says
    nothing. `sites` are those that addresses may mean. Without `media_type` the text itself tells JSON from
    YAML.

    Raises `TowpathError` (invalid) with all errors in `detail.errors`.
    """
    content = _mapping(load(text, media_type))
    name = name or (None if "name" in content else otherwise)
    if _is_speck(content):
        named, errors = _named({key: content[key] for key in content if key == "name"}, name)
        made, more = speck.read(content, sites)
        return ReadDocument(_pipeline(named, made.jobs, [*errors, *more]), made.place)
    try:
        own = _OwnDocument.model_validate(content)
    except ValidationError as error:
        raise all_at_once(violations(error, content)) from error
    named, errors = _named(content, name)
    spec = _pipeline(named, own.jobs, [*errors, *_twice(own.jobs)])
    return ReadDocument(spec.model_copy(update={"policy": own.policy}), lambda field: field)


def names_addresses(text: str, media_type: str | None = None) -> bool:
    """True if reading the document needs the mesh's sites, because SpecK's format has addresses.

    Raises `TowpathError` (invalid) when the text is not a pipeline at all.
    """
    return _is_speck(_mapping(load(text, media_type)))


def _mapping(content: Any) -> dict[Any, Any]:
    if isinstance(content, dict) and "jobs" in content:
        return content
    what = "no `jobs`" if isinstance(content, dict) else "not a mapping"
    raise TowpathError(ErrorCode.INVALID, f"{what}: this describes no pipeline", allowed=_FORMATS)


_FORMATS = "`name:` and `jobs:` with a list of jobs, or SpecK's `jobs:`"


def _is_speck(content: dict[Any, Any]) -> bool:
    jobs = content["jobs"]
    return isinstance(jobs, list) and any(isinstance(job, dict) and job.keys() & speck.KEYS for job in jobs)


def _named(content: dict[Any, Any], wanted: str | None) -> tuple[str, list[ErrorDetail]]:
    """Return the pipeline's name, and the errors in it."""
    said = content.get("name")
    if wanted is not None and said is not None and said != wanted:
        allowed: str | list[str] = [wanted]
        message = "the document names another pipeline"
    elif is_name(name := str(wanted if wanted is not None else said or "")):
        return name, []
    else:
        allowed, message = NAME_PATTERN, "the pipeline has no name" if not name else "not a pipeline's name"
    error = ErrorDetail(
        code=ErrorCode.INVALID,
        message=message,
        field="name",
        value=said if isinstance(said, str) and said else wanted,
        allowed=allowed,
    )
    return "unnamed", [error]


def _twice(jobs: Sequence[PipelineJob]) -> list[ErrorDetail]:
    first: dict[str, int] = {}
    return [
        ErrorDetail(
            code=ErrorCode.NAME_IN_USE,
            message=f"jobs[{first[job.name]}] also has this name",
            field=f"jobs[{position}].name",
            value=job.name,
            allowed="another name",
        )
        for position, job in enumerate(jobs)
        if first.setdefault(job.name, position) != position
    ]


def _pipeline(name: str, jobs: Sequence[PipelineJob], errors: Sequence[ErrorDetail]) -> PipelineSpec:
    if errors:
        raise all_at_once(errors)
    return PipelineSpec(name=name, jobs=[*jobs])
