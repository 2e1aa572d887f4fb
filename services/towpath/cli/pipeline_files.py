"""Descriptions of pipelines in files: every mistake on a line of its own, with file and place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from towpath.bus import Bus
from towpath.cli.connection import LOOK_ATTEMPT_S, LOOK_DEADLINE_S
from towpath.cli.endings import BAD_INPUT, FAILED
from towpath.cli.failures import INPUT_CODES
from towpath.cli.output import say
from towpath.composition.documents import ReadDocument, names_addresses, read_document
from towpath.composition.speck import as_name
from towpath.contracts.commands import ListSites
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.pipeline import PipelineJob, PipelineSpec
from towpath.operators.kind import user_code


@dataclass(frozen=True)
class PipelineFile:
    """A file with a pipeline's description."""

    path: Path
    text: str
    name: str | None
    """The pipeline's name, if it is not the one in the file."""

    @classmethod
    def open(cls, path: Path, name: str | None) -> PipelineFile:
        """Read the file, in any of the formats. A file that needs no mesh is checked at once.

        Prints the errors of a wrong file and raises `typer.Exit`.
        """
        file = cls(path, text_of(path), name)
        with telling(path, str):
            if not names_addresses(file.text):
                read_document(file.text, name=name, sites=(), otherwise=file._stem)
        return file

    async def read(self, bus: Bus) -> ReadDocument:
        """Return the description. Paths of artefacts begin at the file; addresses mean sites of the mesh.

        The mesh checks later if the artefacts exist. Raises `TowpathError` with all errors of the description
        itself.
        """
        question = ListSites()
        sites = await bus.request(question, deadline_s=LOOK_DEADLINE_S, attempt_s=LOOK_ATTEMPT_S)
        read = read_document(self.text, name=self.name, sites=sites.sites, otherwise=self._stem)
        jobs = [self._with_absolute_artefact(job) for job in read.spec.jobs]
        return ReadDocument(PipelineSpec(name=read.spec.name, jobs=jobs), read.place)

    @property
    def _stem(self) -> str:
        return as_name(self.path.stem)

    def _with_absolute_artefact(self, job: PipelineJob) -> PipelineJob:
        """User code is named relative to the file that names it; services work in other directories."""
        operator = job.operator
        code = user_code(operator)
        if code is None or code.artefact is None:
            return job
        artefact = (self.path.parent / code.artefact).resolve()
        found = operator.model_copy(update={"artefact": str(artefact)})
        return job.model_copy(update={"operator": found})


def text_of(path: Path) -> str:
    """Return the content of a file. Raises `TowpathError` (invalid) when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _unreadable(path, error.strerror or "not readable") from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, "not UTF-8") from error


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
