"""Where streams come from: the providers of `STREAM FROM …`, and their parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from towpath.contracts.data_plane import METRICS_TOPIC
from towpath.contracts.fields import RESERVED_FIELDS, FieldName, FieldType
from towpath.contracts.message import SiteName, Topic
from towpath.queries.meaning import ALL_SITES, HERE, FieldFilter, Source
from towpath.queries.problems import problem
from towpath.queries.tree import Place, Stream
from towpath.queries.tree_builder import MAX_MICROS, UNIT_OF

METRICS_PROVIDERS = ("metrics", "storageFabric")
"""Both are the topic of metrics, at all sites unless some are named."""

PROVIDERS = ("topic", "site", *METRICS_PROVIDERS)
"""`topic` and `site` are one: a topic at some sites."""

_OWN = ("topic", "sites", "site", "time", "delay", "fields", "value")
_METRIC = "metricID"
_PLACEHOLDER = re.compile(r"\{([\w-]+)\}")
_LENGTH = re.compile(r"\s*([0-9]{1,15})\s*([A-Za-z]+)\s*")
_TOPIC, _SITE, _FIELD = TypeAdapter(Topic), TypeAdapter(SiteName), TypeAdapter(FieldName)


@dataclass(frozen=True)
class Declared:
    """A stream, with what its declaration says of its fields."""

    source: Source
    value: str | None
    """The field that the stream's own name stands for."""
    types: Mapping[str, FieldType]


def placeholders(text: str) -> list[str]:
    """Return the names of all `{name}` in a text, each once."""
    return [*dict.fromkeys(_PLACEHOLDER.findall(text))]


def declared(stream: Stream, filled: Mapping[str, str]) -> Declared:
    """Return what a stream's provider and parameters mean.

    `filled` has a value for each `{name}` in a parameter. Raises `TowpathError` that names the place.
    """
    if stream.provider not in PROVIDERS:
        what = f"there is no provider {stream.provider!r}"
        raise problem(stream.place, what, found=stream.provider, allowed=[*PROVIDERS])
    given = {name: _filled(value, filled, stream.place) for name, value in stream.parameters.items()}
    place, metric = stream.place, None
    if stream.provider in METRICS_PROVIDERS:
        given, metric = _of_metrics(given, stream)
    if {"site", "sites"} <= given.keys():
        raise problem(place, "a stream has sites, or one site", found="site", allowed='sites="jfk,lga"')
    if "topic" not in given:
        raise problem(place, f"the stream {stream.name!r} needs a topic", allowed='topic="site/…"')
    filters = tuple(
        _filter(field_name(name, place), value) for name, value in given.items() if name not in _OWN
    )
    has_metric = () if metric is None else (FieldFilter(metric, None),)
    source = Source(
        stream.name,
        _valid(_TOPIC, given["topic"], place, "a topic"),
        _sites(given, place),
        field_name(given["time"], place) if "time" in given else None,
        _micros(given.get("delay", 0.0), place),
        (*has_metric, *filters),
    )
    types = dict(_types(str(given.get("fields", "")), place))
    if metric is not None:
        types.setdefault(metric, FieldType.DOUBLE)
    value = field_name(given["value"], place) if "value" in given else None
    return Declared(source, value, types)


def _of_metrics(
    given: Mapping[str, str | float], stream: Stream
) -> tuple[dict[str, str | float], str | None]:
    """Return the parameters of the topic of metrics, and the one metric that the stream has, if it is one.

    The stream's own name stands for that metric, or else for the metric of that name.
    """
    if "topic" in given:
        what = f"{stream.provider}(…) reads the topic {METRICS_TOPIC}"
        raise problem(stream.place, what, found="topic", allowed='topic(topic="site/…") for another one')
    others = {name: value for name, value in given.items() if name != _METRIC}
    sites = {} if {"site", "sites"} & given.keys() else {"sites": ALL_SITES}
    metric = given.get(_METRIC)
    if metric is None or str(metric).endswith("%"):
        name, one = stream.name, None
    else:
        name = one = field_name(metric, stream.place)
    return {"topic": METRICS_TOPIC, "value": name, **sites, **others}, one


def field_name(name: str | float, place: Place) -> str:
    """Return a name that a field of events can have. Raises `TowpathError` for others."""
    if name in RESERVED_FIELDS:
        what = f"{name!r} is a column of every event, and no field"
        raise problem(place, what, found=name, allowed="another field")
    return _valid(_FIELD, name, place, "a field")


def _filled(value: str | float, filled: Mapping[str, str], place: Place) -> str | float:
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in filled:
            what = f"nothing is given for {match[0]}"
            raise problem(place, what, found=match[1], allowed=[*filled] or f"--set {match[1]}=…")
        return filled[match[1]]

    return _PLACEHOLDER.sub(replaced, value)


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
    match = _LENGTH.fullmatch(delay) if isinstance(delay, str) else None
    is_time, factor = UNIT_OF.get(match[2], (False, 0)) if match else (not isinstance(delay, str), 1_000_000)
    number = int(match[1]) if match else delay
    if not is_time or isinstance(number, str) or not 0 <= number * factor <= MAX_MICROS:
        allowed = '"5 MINUTES", or seconds; at most 366 days'
        raise problem(place, "the delay is a length of time", found=delay, allowed=allowed)
    return round(number * factor)


def _types(written: str, place: Place) -> list[tuple[str, FieldType]]:
    found = []
    for part in filter(None, (part.strip() for part in written.split(","))):
        name, _, kind = (piece.strip() for piece in part.partition(":"))
        if kind not in [*FieldType]:
            raise problem(place, f"the field {name!r} has a type", found=kind, allowed=[*map(str, FieldType)])
        found.append((field_name(name, place), FieldType(kind)))
    return found


def _filter(field: str, value: str | float) -> FieldFilter:
    if isinstance(value, str) and value.endswith("%"):
        return FieldFilter(field, value[:-1], is_prefix=True)
    return FieldFilter(field, value)
