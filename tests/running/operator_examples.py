"""An operator of each kind, and events that it reads. Every kind needs one. Loads no Spark."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import TypeAdapter

from towpath.contracts.operators import Operator, Query
from towpath.operators.kinds.query import plan_of

FIELDS = {"carrier": "string", "delay": "double", "departed_at": "timestamp"}
AGGREGATES = {
    "departures": {"function": "count"},
    "worst": {"function": "max", "field": "delay"},
    "carriers": {"function": "distinct", "field": "carrier"},
    "mean": {"function": "avg", "field": "delay"},
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "clean": {"fields": {"carrier": {"type": "string"}, "delay": {"type": "double", "minimum": -60}}},
    "filter": {"fields": FIELDS, "where": "delay > 0"},
    "map": {"fields": FIELDS, "select": {"late": "delay > 15", "hours": "delay / 60"}},
    "forward": {},
    "merge": {},
    "window": {
        "fields": FIELDS,
        "size_s": 60,
        "event_time": "departed_at",
        "watermark_s": 5,
        "key": ["carrier"],
        "aggregates": AGGREGATES,
    },
    "processing_window": {"fields": FIELDS, "size_s": 5, "key": ["carrier"], "aggregates": AGGREGATES},
    "predict": {
        "fields": FIELDS,
        "key": ["carrier"],
        "time": "departed_at",
        "rolling": {
            "size_s": 3600,
            "aggregates": {
                "departures": {"function": "count"},
                "usual": {"function": "avg", "field": "delay"},
            },
        },
        "model": {"kind": "cusum", "of": "delay", "mean": 0, "deviation": 2, "threshold": 0.25},
    },
    "chain": {
        "steps": [
            {
                "kind": "clean",
                "fields": {
                    "carrier": {"type": "string"},
                    "delay": {"type": "double", "minimum": -60},
                    "departed_at": {"type": "timestamp"},
                },
            },
            {"kind": "filter", "name": "late", "fields": FIELDS, "where": "delay > -5"},
            {
                "kind": "window",
                "fields": FIELDS,
                "size_s": 60,
                "event_time": "departed_at",
                "watermark_s": 5,
                "key": ["carrier"],
                "aggregates": AGGREGATES,
            },
        ]
    },
    "query": {
        "text": 's = STREAM FROM topic(topic="site/a") q = COMPUTE SUM(delay, 2 m) EVERY 1 m BY carrier',
    },
    "python": {
        "fields": FIELDS,
        "entry": "own_code:run",
        "parameters": {"none": None, "ä": [1, 2.5, {"deep": False}]},
    },
}
"""Kind → what stands in the description of a job beside `kind`."""


def _panes() -> list[dict[str, Any]]:
    """The fields that the example of `query` reads."""
    shared = plan_of(Query(**EXAMPLES["query"]))
    numbers = {"count": 1, "sum": 2.5}
    return [
        {
            "window_start": f"2026-01-01T00:0{n}:00Z",
            "window_end": f"2026-01-01T00:0{n + 1}:00Z",
            **dict.fromkeys(shared.keys, f"={carrier}"),
            **{kept.name: numbers[kept.part] for kept in shared.kept},
        }
        for n, carrier in enumerate(["AA", "UA", "AA", "B6"])
    ]


EVENTS: list[dict[str, Any]] = [
    {"carrier": carrier, "delay": 4.0 * n - 6, "departed_at": f"2026-01-01T00:0{n}:30Z", **pane}
    for n, (carrier, pane) in enumerate(zip(["AA", "UA", "AA", "B6"], _panes(), strict=True))
]


def example(kind: str) -> Operator:
    """The example of a kind, as a model."""
    return TypeAdapter[Operator](Operator).validate_python({"kind": kind, **EXAMPLES[kind]})


WIRE_KINDS = [model.model_fields["kind"].default for model in get_args(get_args(Operator)[0])]
"""The kinds that may stand in a job's description."""
