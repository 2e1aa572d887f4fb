"""Streams of a site that have values, and the way to read these."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import partial

from towpath.contracts.data_plane import METRICS_STREAM, MQTT_DELIVERY, OUTPUT_STREAM_PREFIX, topic_of
from towpath.contracts.storage import ValueStream
from towpath.stored_values.event_values import values_of_metrics, values_of_result
from towpath.stored_values.stored_value import StoredValue
from towpath.streams.stream_view import StreamView

LOOK_S = 0.5
"""Pause of a storage at a stream that has nothing new. A value is there that much later at most."""

Reads = Callable[[bytes, float], list[StoredValue]]
"""Returns the values of an event, given when it was stored, Unix seconds."""


def value_streams(views: Iterable[StreamView], results: Iterable[str]) -> list[ValueStream]:
    """Return the stream of metrics, and those of jobs whose topic a pattern of `results` fits."""
    results = [*results]
    found = []
    for view in views:
        if view.name == METRICS_STREAM:
            found.append(ValueStream(name=view.name, created=view.created))
        elif view.name.startswith(OUTPUT_STREAM_PREFIX) and view.republishes_to.startswith(MQTT_DELIVERY):
            topic = topic_of(view.republishes_to.removeprefix(MQTT_DELIVERY))
            if _is_wanted(topic, results):
                job = view.name.removeprefix(OUTPUT_STREAM_PREFIX)
                after = view.promoted_after
                found.append(ValueStream(name=view.name, created=view.created, job=job, after=after))
    return found


def reader_of(stream: ValueStream) -> Reads:
    """Return the function that reads the values of a stream's events."""
    return values_of_metrics if stream.job is None else partial(values_of_result, stream.job)


def _is_wanted(topic: str, patterns: Iterable[str]) -> bool:
    """Tell if a pattern fits a topic. `*` stands for any characters but `/`."""
    levels = topic.split("/")
    split = (pattern.split("/") for pattern in patterns)
    return any(len(pattern) == len(levels) and all(map(fnmatchcase, levels, pattern)) for pattern in split)
