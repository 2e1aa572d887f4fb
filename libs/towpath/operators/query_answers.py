"""Plan answers to queries: panes in, grouped by the keys that their queries share; answers out.

Spark keeps the state of a group as one binary column. It calls the group again when a moment comes at which a
window has a value, even if no new pane has come.

Queries that share one group answer a micro-batch sooner, if there is one input: the group sees its
punctuations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from towpath.contracts.fields import FieldType
from towpath.operators.columns import all_of, is_new, named, union
from towpath.operators.group_state import computed
from towpath.operators.job_events import JobEvents
from towpath.operators.kinds.window import BOUNDS
from towpath.operators.results import carried_name, results_of
from towpath.queries.evaluation.frames import ANSWERS, END, SOURCE, START, STORED, PaneGroups
from towpath.queries.planning import SharedPlan
from towpath.queries.sharing import SharedKeys, shared_keys
from towpath.streams.encoding import CLOSED
from towpath.streams.reading import INPUT, SERIAL, STORED_AT

_WATERMARKED = "pane time"
_GROUP, _PROGRAM, _KEYS = "group", "program", "keys"
_BETWEEN = "\x1f"
"""Between the values of a group's keys. None begins with anything but `=`."""


def answers_of(events: JobEvents, plan: SharedPlan, fields: Mapping[str, FieldType]) -> DataFrame:
    """The answers, each once, when the watermark or a punctuation says that its moment has passed."""
    shared = shared_keys(plan.program)
    frames = events.typed(dict(fields), required=BOUNDS)
    panes = union([_watermarked(frame, is_only_input=len(frames) == 1) for frame in frames])
    groups = PaneGroups(
        {one.name: one.program for one in shared}, [(kept.argument, str(kept.part)) for kept in plan.kept]
    )
    schema = ", ".join(f"`{name}` {kind}" for name, kind in ANSWERS.items())
    placed = _grouped(panes, shared, fields)
    answers = computed(placed, [_PROGRAM, _KEYS], groups, schema, GroupStateTimeout.EventTimeTimeout)
    rows = answers.select(
        SERIAL,
        F.timestamp_micros(STORED).alias(STORED_AT),
        *(F.col(name).alias(f"answer {name}") for name in ANSWERS if name not in (SERIAL, STORED)),
    )
    end = named(f"answer {END}")
    return results_of(
        rows,
        named("answer values"),
        key=named("answer key"),
        window=F.struct(
            F.timestamp_micros(named("answer start")).alias("start"), F.timestamp_micros(end).alias("end")
        ),
        identity=F.struct(
            named("answer key").alias("key"), end.alias("at"), named("answer number").alias("number")
        ),
    )


def _watermarked(panes: DataFrame, *, is_only_input: bool) -> DataFrame:
    """The panes with the column that says how far time is.

    The punctuations of the only input stay among them: each says that all panes up to its end have come.
    """
    closed = carried_name(CLOSED)
    if closed in panes.columns:
        return panes.withColumn(_WATERMARKED, F.window_time(named(closed)))
    # Other panes with the same end may follow a pane, and none follows a punctuation.
    end = F.col("window_end")
    time = F.when(F.col("window_start") < end, end - F.expr("interval 1 microsecond")).otherwise(end)
    timed = panes.withColumn(_WATERMARKED, time).withWatermark(f"`{_WATERMARKED}`", "0 seconds")
    # A condition that does not use the watermark's column Spark would move before the watermark.
    counts = is_new(named(_WATERMARKED))
    return timed.where(counts if is_only_input else counts & (named(_WATERMARKED) < end))


def _grouped(panes: DataFrame, shared: Sequence[SharedKeys], fields: Mapping[str, FieldType]) -> DataFrame:
    """Each pane once for each program, with the group of keys that it belongs to."""
    groups = F.array(*(_group(one) for one in shared))
    placed = panes.select(
        named(_WATERMARKED),
        F.explode(F.filter(groups, lambda group: group.isNotNull())).alias(_GROUP),
        F.unix_micros("window_start").alias(START),
        F.unix_micros("window_end").alias(END),
        SERIAL,
        F.unix_micros(STORED_AT).alias(STORED),
        F.coalesce(INPUT, F.lit(0)).alias(SOURCE),
        *(name for name in fields if name not in BOUNDS),
    )
    return placed.select(f"{_GROUP}.*", *(named(name) for name in placed.columns if name != _GROUP))


def _group(shared: SharedKeys) -> Column:
    """The group of a pane in a program; null if it lacks a key, as punctuations lack all."""
    values = F.concat_ws(_BETWEEN, F.lit(""), *shared.keys)
    group = F.struct(F.lit(shared.name).alias(_PROGRAM), values.alias(_KEYS))
    return F.when(all_of(F.col(key) != "" for key in shared.keys), group)
