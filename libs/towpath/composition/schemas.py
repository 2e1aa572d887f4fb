"""Derive the fields of a job's results from its operator, and check that its readers' fields exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.job import Input, JobSpec
from towpath.contracts.operators import FieldType
from towpath.operators.kind import Schema, kind_of


class Described(Protocol):
    """Anything that has a job's description: an entry of the registry, a job of a pipeline."""

    @property
    def spec(self) -> JobSpec:
        """The description."""
        ...


class ResultFields:
    """Result fields of jobs that read each other. Each job's fields are derived once."""

    def __init__(self, jobs: Mapping[str, JobSpec]) -> None:
        self._writers: dict[tuple[str, str], list[str]] = {}
        for name, job in jobs.items():
            self._writers.setdefault((job.output_site, job.output.topic), []).append(name)
        self._known: dict[str, Schema | None] = {}
        passing = []
        for name, job in jobs.items():
            kind = kind_of(job.operator)
            if kind.passes_on:
                passing.append(job)
            else:
                self._known[name] = kind.writes(job.operator)
        self._pass_on(passing)

    def of(self, job: str) -> Schema | None:
        """Return the fields of the job's results. None if they cannot be derived."""
        return self._known.get(job)

    def read(self, wanted: Input) -> dict[str, Schema | None]:
        """Return writer → fields of its results, for all jobs that write the input's topic."""
        return {name: self._known.get(name) for name in self._names(wanted)}

    def _names(self, wanted: Input) -> list[str]:
        return [] if wanted.from_device else self._writers.get((wanted.site, wanted.topic), [])

    def _pass_on(self, passing: list[JobSpec]) -> None:
        """Derive fields downstream, job by job: they are known once the fields of all that a job reads are.

        Jobs that pass events on to each other in a cycle are left out. Their fields stay unknown.
        """
        waits = {job.name: {n for i in job.inputs for n in self._names(i)} for job in passing}
        followers: dict[str, list[JobSpec]] = {}
        for job in passing:
            waits[job.name] -= self._known.keys()
            for name in waits[job.name]:
                followers.setdefault(name, []).append(job)
        ready = [job for job in passing if not waits[job.name]]
        while ready:
            done = ready.pop()
            self._known[done.name] = self._common(done)
            for job in followers.get(done.name, ()):
                waits[job.name].discard(done.name)
                if not waits[job.name]:
                    ready.append(job)

    def _common(self, job: JobSpec) -> Schema | None:
        """Return the fields that all inputs have in common: an event may come from any of them."""
        common: Schema | None = None
        for wanted in job.inputs:
            schemas = [*self.read(wanted).values()]
            if not schemas:
                return None
            for schema in schemas:
                if schema is None:
                    return None
                common = dict(schema) if common is None else _intersection(common, schema)
        return common


def _intersection(left: Schema, right: Schema) -> Schema:
    return {n: t if right[n] == t else None for n, t in left.items() if n in right}


class Mismatch(NamedTuple):
    """A field that a job asks for, and that a job it reads from lacks or has with another type."""

    writer: str
    error: ErrorDetail
    """The error. Its field is that of the input, for example `inputs.0`."""


def check_fields(spec: JobSpec, jobs: Mapping[str, Described]) -> None:
    """Raise `TowpathError` (schema mismatch) if an upstream job lacks a field or has it with another type."""
    specs = {name: entry.spec for name, entry in jobs.items()}
    _raise_first(mismatches(spec, ResultFields({**specs, spec.name: spec})))


def check_readers(jobs: Mapping[str, Described], changed: str) -> None:
    """Raise `TowpathError` if the changed job, as it is in `jobs`, lacks a field that a reader needs."""
    fields = ResultFields({name: entry.spec for name, entry in jobs.items()})
    for name, entry in jobs.items():
        if name != changed:
            _raise_first(mismatches(entry.spec, fields))


def _raise_first(found: list[Mismatch]) -> None:
    if found:
        raise TowpathError.of(found[0].error)


def mismatches(spec: JobSpec, fields: ResultFields) -> list[Mismatch]:
    """Return all fields that the job asks for and that an upstream job lacks or has with another type."""
    kind, found = kind_of(spec.operator), list[Mismatch]()
    asked, optional = kind.reads(spec.operator), kind.may_read(spec.operator)
    for position, wanted in enumerate(spec.inputs):
        for writer, schema in fields.read(wanted).items():
            if schema is None or writer == spec.name:
                continue
            read = asked | {name: type_ for name, type_ in optional.items() if name in schema}
            errors = _mismatches(read, schema, writer, f"inputs.{position}", spec.name)
            found += [Mismatch(writer, error) for error in errors]
    return found


def _mismatches(
    asked: dict[str, FieldType], schema: Schema, writer: str, field: str, reader: str
) -> Iterator[ErrorDetail]:
    has = [f"{name}: {kind or 'unknown type'}" for name, kind in sorted(schema.items())]
    for name, kind in asked.items():
        if name not in schema:
            message = f"{reader} asks for field {name!r} ({kind}), which {writer} does not write"
        elif not _fits(schema[name], kind):
            message = f"{reader} asks for field {name!r} as {kind}, but {writer} writes {schema[name]}"
        else:
            continue
        yield ErrorDetail(
            code=ErrorCode.SCHEMA_MISMATCH, message=message, field=field, value=name, allowed=has
        )


def _fits(has: FieldType | None, asked: FieldType) -> bool:
    """True if the types are equal, one is unknown, or a whole number is read as a number."""
    return has is None or has == asked or (has is FieldType.LONG and asked is FieldType.DOUBLE)
