"""Look at an event a second time: find the field without the declared JSON type, and what it has."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from towpath.contracts.job import ResolvedInput
from towpath.contracts.operators import FieldType
from towpath.operators.columns import TEXT, named
from towpath.operators.json_events import UNREAD, VALID, envelope_paths, instant_of, wrapped

NOT_AN_OBJECT = "not a JSON object"

_EXPECTED = {
    FieldType.STRING: "a string",
    FieldType.LONG: "an integer of at most 64 bits",
    FieldType.DOUBLE: "a finite number",
    FieldType.BOOLEAN: "true or false",
    FieldType.TIMESTAMP: "an ISO 8601 time",
}


def reason_of(source: ResolvedInput, fields: dict[str, FieldType]) -> Column:
    """The fault of the event, which names the field; null if there is none."""

    def judge(event: Column) -> Column:
        unreadable = event.isNull() | ~_is_object(_member(event, "$.event")) | ~_ends_as_object()
        complaints = [_complaint(event, source, name, kind) for name, kind in fields.items()]
        envelope = [] if source.from_device else [_envelope_complaint(event)]
        unread = F.when(named(UNREAD).isNotNull(), F.lit("does not have the declared fields"))
        return F.when(unreadable, F.lit(NOT_AN_OBJECT)).otherwise(F.coalesce(*envelope, *complaints, unread))

    # Spark computes a lambda's argument once. Without the lambda it would parse the event once per field.
    looked_at = F.transform(F.array(F.try_parse_json(wrapped(named(TEXT)))), judge)
    return F.when(~named(VALID), F.lit("not UTF-8")).otherwise(F.element_at(looked_at, 1))


def _ends_as_object() -> Column:
    """False for text that is complete only with the object that `wrapped` puts around it."""
    return F.rtrim(named(TEXT), F.lit(" \t\r\n")).endswith("}")


def _member(event: Column, path: str) -> Column:
    return F.try_variant_get(event, path, "variant")


def _kind(value: Column) -> Column:
    return F.schema_of_variant(value)


def _is_object(value: Column) -> Column:
    return F.coalesce(_kind(value).startswith("OBJECT"), F.lit(False))


def _envelope_complaint(event: Column) -> Column:
    values = _member(event, "$.event.values")
    return F.when(~_is_object(values), F.lit("field 'values': expected an object, as in every job's result"))


def _complaint(event: Column, source: ResolvedInput, name: str, kind: FieldType) -> Column:
    paths = [name] if source.from_device else envelope_paths(name)
    found = F.coalesce(*(_member(event, f"$.event.{path}") for path in paths))
    fits = F.coalesce(_fits(kind, found), F.lit(False))
    text = F.concat(
        F.lit(f"field '{name}': expected {_EXPECTED[kind]}, got "), F.substring(F.to_json(found), 1, 100)
    )
    return F.when(found.isNotNull() & (_kind(found) != "VOID") & ~fits, text)


def _fits(kind: FieldType, found: Column) -> Column:
    match kind:
        case FieldType.STRING:
            return _kind(found) == "STRING"
        case FieldType.LONG:
            return _kind(found) == "BIGINT"
        case FieldType.BOOLEAN:
            return _kind(found) == "BOOLEAN"
        case FieldType.TIMESTAMP:
            text = F.try_variant_get(found, "$", "string")
            return (_kind(found) == "STRING") & instant_of(text).isNotNull()
        case FieldType.DOUBLE:
            number = _kind(found).rlike("^(BIGINT|DECIMAL|DOUBLE)")
            return number & (F.abs(F.try_variant_get(found, "$", "double")) < float("inf"))
