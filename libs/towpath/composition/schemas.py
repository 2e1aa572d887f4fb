"""Which fields a job's results have, as far as its operator tells, and whether its readers' fields exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Input, JobSpec
from towpath.contracts.operators import (
    AggregateFunction,
    Clean,
    FieldType,
    Filter,
    Forward,
    Map,
    Merge,
    ProcessingWindow,
    Python,
    Window,
)

Schema = dict[str, FieldType | None]
"""Field → type; None where only Spark knows the type."""


class Described(Protocol):
    """Something that has a job's description: a registry's entry, a job of a pipeline."""

    @property
    def spec(self) -> JobSpec:
        """The description."""
        ...


def asked_fields(spec: JobSpec) -> dict[str, FieldType]:
    """Fields the job cannot do without."""
    match spec.operator:
        case Clean() as clean:
            return {name: rule.type for name, rule in clean.fields.items() if rule.required}
        case Filter() | Map() | Window() | ProcessingWindow() | Python() as operator:
            return dict(operator.fields)
        case Forward() | Merge():
            return {}


def result_fields(
    spec: JobSpec, jobs: Mapping[str, Described], seen: frozenset[str] = frozenset()
) -> Schema | None:
    """Fields of a job's results; None when they cannot be derived (user code, device events)."""
    match spec.operator:
        case Clean() as clean:
            return {name: rule.type for name, rule in clean.fields.items()}
        case Filter() as kept:
            return dict(kept.fields)
        case Map() as computed:
            return dict.fromkeys(computed.select)
        case Window() as window:
            bounds = dict.fromkeys(("window_start", "window_end"), FieldType.TIMESTAMP)
            return {**_aggregate_fields(window), **bounds}
        case ProcessingWindow() as window:
            return _aggregate_fields(window)
        case Forward() | Merge():
            return _passed_on(spec, jobs, seen | {spec.name})
        case Python():
            return None


def _aggregate_fields(window: Window | ProcessingWindow) -> Schema:
    schema: Schema = {name: window.fields[name] for name in window.key}
    schema["count"] = FieldType.LONG
    for name, aggregate in window.aggregates.items():
        match aggregate.function:
            case AggregateFunction.COUNT | AggregateFunction.DISTINCT:
                schema[name] = FieldType.LONG
            case AggregateFunction.MIN | AggregateFunction.MAX:
                schema[name] = window.fields[aggregate.field or ""]
            case _:
                schema[name] = FieldType.DOUBLE
    return schema


def _passed_on(spec: JobSpec, jobs: Mapping[str, Described], seen: frozenset[str]) -> Schema | None:
    """What all inputs have in common: an event may come from any of them."""
    common: Schema | None = None
    for wanted in spec.inputs:
        schemas = input_schemas(wanted, jobs, seen)
        if not schemas or None in schemas.values():
            return None
        for schema in schemas.values():
            assert schema is not None
            common = dict(schema) if common is None else _intersection(common, schema)
    return common


def _intersection(left: Schema, right: Schema) -> Schema:
    return {n: t if right[n] == t else None for n, t in left.items() if n in right}


def input_schemas(
    wanted: Input, jobs: Mapping[str, Described], seen: frozenset[str] = frozenset()
) -> dict[str, Schema | None]:
    """Writer → fields of its results, for all jobs that write the input's topic."""
    if wanted.from_device:
        return {}
    return {
        name: None if name in seen else result_fields(entry.spec, jobs, seen)
        for name, entry in jobs.items()
        if (entry.spec.output_site, entry.spec.output.topic) == (wanted.site, wanted.topic)
    }


def check_fields(spec: JobSpec, jobs: Mapping[str, Described]) -> None:
    """Raise `TowpathError` (schema mismatch) if an upstream job lacks a field, or has another type."""
    asked = asked_fields(spec)
    for position, wanted in enumerate(spec.inputs):
        for writer, schema in input_schemas(wanted, jobs, frozenset({spec.name})).items():
            if schema is not None:
                _check(asked, schema, writer, f"inputs.{position}", spec.name)


def check_readers(jobs: Mapping[str, Described], changed: str) -> None:
    """Raise `TowpathError` if a job lacks a field since the job `changed` is as it is in `jobs`."""
    for name, entry in jobs.items():
        if name != changed:
            check_fields(entry.spec, jobs)


def _check(asked: dict[str, FieldType], schema: Schema, writer: str, field: str, reader: str) -> None:
    has = [f"{name}: {kind or 'unknown type'}" for name, kind in sorted(schema.items())]
    for name, kind in asked.items():
        if name not in schema:
            message = f"{reader} asks for field {name!r} ({kind}), which {writer} does not write"
        elif not _fits(schema[name], kind):
            message = f"{reader} asks for field {name!r} as {kind}, but {writer} writes {schema[name]}"
        else:
            continue
        raise TowpathError(ErrorCode.SCHEMA_MISMATCH, message, field=field, value=name, allowed=has)


def _fits(has: FieldType | None, asked: FieldType) -> bool:
    """Equal, unknown, or a whole number read as a number."""
    return has is None or has == asked or (has is FieldType.LONG and asked is FieldType.DOUBLE)
