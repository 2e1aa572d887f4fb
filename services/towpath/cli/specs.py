"""Read job specs from YAML files. Every error has its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from towpath.artefacts.root import FIELD
from towpath.composition.texts import load_all_yaml
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.operators.kind import user_code, with_code_at


def load_specs(path: Path) -> list[JobSpec]:
    """Return the jobs of a file, in order: YAML documents, each one job or a list under `jobs`.

    Raises `TowpathError` with line and column of broken YAML, or with the field's path of a wrong value.
    """
    found = [_parsed(path, position, content) for position, content in enumerate(_contents(path), start=1)]
    if not found:
        raise _refused(path, "no job in this file", allowed="one job, several documents, or `jobs:`")
    return found


def _contents(path: Path) -> Iterator[Any]:
    for document in _documents(path):
        if isinstance(document, dict) and "jobs" in document:
            if not isinstance(document["jobs"], list) or len(document) > 1:
                raise _refused(path, "not a list of jobs", field="jobs", allowed="`jobs:` alone, with a list")
            yield from document["jobs"]
        elif document is not None:
            yield document


def _documents(path: Path) -> list[Any]:
    try:
        return load_all_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _refused(path, error.strerror or "not readable", allowed="a readable YAML file") from error
    except UnicodeDecodeError as error:
        raise _refused(path, "not UTF-8", allowed="a YAML file") from error
    except TowpathError as error:
        raise _refused(path, error.detail.message, allowed=error.detail.allowed) from error


def _parsed(path: Path, position: int, content: Any) -> JobSpec:
    name = content.get("name") if isinstance(content, dict) else None
    job = f"job {name}" if isinstance(name, str) else f"job number {position}"
    if not isinstance(content, dict):
        raise _refused(path, f"{job} is not a mapping", allowed="name, site, inputs, output, operator, …")
    try:
        return _with_absolute_artefact(path, JobSpec.model_validate(content))
    except ValidationError as error:
        detail = TowpathError.of_validation(error).detail
        message = f"{path}: {job}: {detail.message}"
        raise TowpathError.of(detail.model_copy(update={"message": message})) from error


def _with_absolute_artefact(path: Path, job: JobSpec) -> JobSpec:
    """User code is named relative to the file that names it; the agent works in another directory."""
    code = user_code(job.operator)
    if code is None or code.artefact is None:
        return job
    artefact = (path.parent / code.artefact).resolve()
    if not artefact.exists():
        raise _refused(
            path,
            "no such file or directory",
            field=FIELD,
            value=code.artefact,
            allowed="a wheel, a zip or a directory, relative to the spec's file",
        )
    return job.model_copy(update={"operator": with_code_at(job.operator, str(artefact))})


def _refused(path: Path, message: str, **place: Any) -> TowpathError:
    return TowpathError(ErrorCode.INVALID, f"{path}: {message}", **place)
