"""Where streams come from: the providers of `STREAM FROM …`, and their parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from towpath.contracts.fields import FieldName, FieldType
from towpath.contracts.message import SiteName, Topic
from towpath.queries.meaning import ALL_SITES, HERE, FieldFilter, Source
from towpath.queries.problems import problem
from towpath.queries.tree import Place, Stream

PROVIDERS = ("topic", "site")
"""`topic` and `site` are one: a topic at some sites."""

_OWN = ("topic", "sites", "site", "time", "delay", "fields", "value")
_LENGTH = re.compile(r"\s*(\d+)\s*(ms|s|m|h|SECONDS?|MINUTES?|HOURS?|MILLIS)\s*")
_MICROS = {"ms": 1_000, "MILLIS": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_TOPIC, _SITE, _FIELD = TypeAdapter(Topic), TypeAdapter(SiteName), TypeAdapter(FieldName)


class Declared:
    """A stream, with what its declaration says of its fields."""

    def __init__(self, source: Source, value: str | None, types: Mapping[str, FieldType]) -> None:
        self.source = source
        self.value = value
        """The field that the stream's own name stands for."""
        self.types = types


def declared(stream: Stream, filled: Mapping[str, str]) -> Declared:
    """Return what a stream's provider and parameters mean.

    `filled` has a value for each `{name}` in a parameter. Raises `TowpathError` that names the place.
    """
    if stream.provider not in PROVIDERS:
        what = f"there is no provider {stream.provider!r}"
        raise problem(stream.place, what, found=stream.provider, allowed=[*PROVIDERS])
    given = {name: _filled(value, filled, stream.place) for name, value in stream.parameters.items()}
    place = stream.place
    if "topic" not in given:
        raise problem(place, f"the stream {stream.name!r} needs a topic", allowed='topic="site/…"')
    filters = tuple(
        _filter(_valid(_FIELD, name, place, "a field"), value)
        for name, value in given.items()
        if name not in _OWN
    )
    source = Source(
        stream.name,
        _valid(_TOPIC, given["topic"], place, "a topic"),
        _sites(given, place),
        _valid(_FIELD, given["time"], place, "a field") if "time" in given else None,
        _micros(given.get("delay", 0.0), place),
        filters,
    )
    types = dict(_types(str(given.get("fields", "")), place))
    value = _valid(_FIELD, given["value"], place, "a field") if "value" in given else None
    return Declared(source, value, types)


def _filled(value: str | float, filled: Mapping[str, str], place: Place) -> str | float:
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in filled:
            what = f"nothing is given for {match[0]}"
            raise problem(place, what, found=match[1], allowed=[*filled] or f"--set {match[1]}=…")
        return filled[match[1]]

    return re.sub(r"\{([\w-]+)\}", replaced, value)


def _valid(kind: TypeAdapter[str], value: Any, place: Place, what: str) -> str:
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        raise problem(place, f"{value!r} is not {what}: {error.errors()[0]['msg']}", found=value) from None


def _sites(given: Mapping[str, Any], place: Place) -> tuple[str, ...]:
    written = given.get("sites", given.get("site"))
    if written is None:
        return (HERE,)
    names = [name.strip() for name in str(written).split(",")]
    if names == [ALL_SITES]:
        return (ALL_SITES,)
    return tuple(dict.fromkeys(_valid(_SITE, name, place, "a site") for name in names))


def _micros(delay: str | float, place: Place) -> int:
    if not isinstance(delay, str):
        return round(delay * 1_000_000)
    match = _LENGTH.fullmatch(delay)
    if match is None:
        raise problem(place, "the delay is a length of time", found=delay, allowed='"5 MINUTES", or seconds')
    return int(match[1]) * _MICROS.get(match[2], _MICROS.get(match[2][0].lower(), 0))


def _types(written: str, place: Place) -> list[tuple[str, FieldType]]:
    found = []
    for part in filter(None, (part.strip() for part in written.split(","))):
        name, _, kind = (piece.strip() for piece in part.partition(":"))
        if kind not in [*FieldType]:
            raise problem(place, f"the field {name!r} has a type", found=kind, allowed=[*map(str, FieldType)])
        found.append((_valid(_FIELD, name, place, "a field"), FieldType(kind)))
    return found


def _filter(field: str, value: str | float) -> FieldFilter:
    if isinstance(value, str) and value.endswith("%"):
        return FieldFilter(field, value[:-1], is_prefix=True)
    return FieldFilter(field, value)
