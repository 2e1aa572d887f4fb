"""The jobs of the demonstration: a data model on board, a job that moves, and one that receives.

    axle boxes ─▶ wheels (train) ──┬── ride (train, then trackside, then train again)
                                   └── delivered (trackside)

`wheels` makes one event of each report. `ride` summarises two seconds of each wheel; its results stay on the
train wherever it runs. `delivered` passes every event of `wheels` on at the trackside, so its subscribers
hear of the train whenever there is a link.
"""

from __future__ import annotations

from importlib.resources import files

from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import Aggregate, AggregateFunction, FieldType, Forward, Window
from towpath.edge.documents import ModelJob, read_models

TRAIN, TRACKSIDE = "train", "trackside"
SITES = (TRAIN, TRACKSIDE)

RIDE, DELIVERED = "ride", "delivered"

WINDOW_S = 2.0
WATERMARK_S = 1.0
"""Event time never goes back: the seven wheels report in the order of time."""

TRIGGER_S = 1.0

DELIVERY_S, DELIVERY_EVENTS = 0.5, 5_000
"""A backlog is delivered in small micro-batches. So the first events come soon after the link, and a short
stop is not spent on one large batch."""


def data_model() -> ModelJob:
    """Return the data model of the axle boxes, and the job that it becomes at its node."""
    text = files(__package__ or "").joinpath("wheels.yaml").read_text(encoding="utf-8")
    [found] = read_models(text)
    return found


def ride(events: str) -> JobSpec:
    """Return the job that changes sides. `events` is the topic of the data model's events."""
    value = "acceleration"
    windows = Window(
        fields={"wheel": FieldType.STRING, "at": FieldType.TIMESTAMP, value: FieldType.DOUBLE},
        event_time="at",
        watermark_s=WATERMARK_S,
        size_s=WINDOW_S,
        key=["wheel"],
        aggregates={
            "measurements": Aggregate(function=AggregateFunction.COUNT),
            "usual": Aggregate(function=AggregateFunction.PERCENTILE, field=value, q=0.95),
            "hardest": Aggregate(function=AggregateFunction.MAX, field=value),
        },
    )
    return JobSpec(
        name=RIDE,
        site=TRAIN,
        inputs=[Input(site=TRAIN, topic=events)],
        output=Output(site=TRAIN, topic="ride/windows"),
        operator=windows,
        trigger_s=TRIGGER_S,
    )


def delivered(events: str) -> JobSpec:
    """Return the job that brings the events of the train to the trackside."""
    return JobSpec(
        name=DELIVERED,
        site=TRACKSIDE,
        inputs=[Input(site=TRAIN, topic=events)],
        output=Output(site=TRACKSIDE, topic="wheels/delivered"),
        operator=Forward(),
        trigger_s=DELIVERY_S,
        max_events_per_batch=DELIVERY_EVENTS,
    )
