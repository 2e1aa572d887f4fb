"""Descriptions of pipelines in files: every mistake on a line of its own, with file and place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import typer

from towpath.bus import Bus
from towpath.cli.connection import LOOK_ATTEMPT_S, LOOK_DEADLINE_S, open_bus
from towpath.cli.endings import BAD_INPUT, FAILED
from towpath.cli.failures import INPUT_CODES
from towpath.cli.output import say
from towpath.composition.documents import names_addresses, read_document
from towpath.composition.speck import as_name
from towpath.contracts.commands import ListSites
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.pipeline import PipelineJob, PipelineSpec
from towpath.mesh.home import Home
from towpath.operators.kind import user_code, with_code_at


@asynccontextmanager
async def described(home: Home, path: Path, name: str | None) -> AsyncIterator[tuple[Bus, PipelineSpec]]:
    """Read the description of a pipeline, in any of the formats, and connect to the mesh.

    `name` is the pipeline's name, if it is not the one in the file. A file that needs no mesh is checked
    first. Prints the errors of a wrong file, also those that the mesh finds, and raises `typer.Exit`.
    """
    text, stem = text_of(path), as_name(path.stem)
    with telling(path, str):
        if not names_addresses(text):
            read_document(text, name=name, sites=(), otherwise=stem)
    async with open_bus(home) as bus:
        with telling(path, str):
            found = await bus.request(ListSites(), deadline_s=LOOK_DEADLINE_S, attempt_s=LOOK_ATTEMPT_S)
            read = read_document(text, name=name, sites=found.sites, otherwise=stem)
        jobs = [_with_absolute_artefact(job, path.parent) for job in read.spec.jobs]
        with telling(path, read.place):
            yield bus, PipelineSpec(name=read.spec.name, jobs=jobs, policy=read.spec.policy)


def _with_absolute_artefact(job: PipelineJob, directory: Path) -> PipelineJob:
    """User code is named relative to the file that names it; services work in other directories.

    The mesh checks later if it exists."""
    code = user_code(job.operator)
    if code is None or code.artefact is None:
        return job
    path = str((directory / code.artefact).resolve())
    return job.model_copy(update={"operator": with_code_at(job.operator, path)})


def text_of(path: Path) -> str:
    """Return the content of a file. Raises `TowpathError` (invalid) when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _unreadable(path, error.strerror or "not readable") from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, "not UTF-8") from error


def bytes_of(path: Path) -> bytes:
    """Return the content of a file that need not be text. Raises `TowpathError` (invalid)."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error.strerror or "not readable") from error


def _unreadable(path: Path, why: str) -> TowpathError:
    return TowpathError(
        ErrorCode.INVALID, f"{path}: {why}", field="file", value=str(path), allowed="a readable file"
    )


@contextmanager
def telling(path: Path, place: Callable[[str], str]) -> Iterator[None]:
    """Print the errors of a file, one on each line, and end with the exit code for them.

    `place` turns fields of the pipeline into those of the file. Other errors are raised again.
    """
    try:
        yield
    except TowpathError as error:
        detail = error.detail
        found = detail.errors or ([detail] if detail.code in INPUT_CODES else [])
        if not found:
            raise
        for each in found:
            say(error_line(path, each, place))
        wrong_input = any(each.code in INPUT_CODES for each in found)
        raise typer.Exit(BAD_INPUT if wrong_input else FAILED) from error


def error_line(path: Path, error: ErrorDetail, place: Callable[[str], str]) -> str:
    """Return one error as `FILE: jobs[3].sink_topic: …`."""
    where = f"{path}: {place(error.field)}" if error.field else f"{path}"
    parts = [f"{where}: {error.message}"]
    if error.value is not None:
        parts.append(f"given: {error.value!r}")
    if error.allowed is not None:
        allowed = error.allowed if isinstance(error.allowed, str) else ", ".join(error.allowed) or "(none)"
        parts.append(f"allowed: {allowed}")
    return " ".join("; ".join(parts).split())
