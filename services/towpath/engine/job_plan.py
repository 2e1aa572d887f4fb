"""The plan of a job over its streams: what its sources are told, and how often and how much they read."""

from __future__ import annotations

import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from towpath.contracts.job import Assignment, JobSpec, ResolvedInput, Thinning
from towpath.engine.settings import EngineSettings
from towpath.engines.spark.binder import is_cluster
from towpath.operators.compilation import compile_job
from towpath.operators.kind import keeps_state, kind_of
from towpath.streams.reading import Reading
from towpath.streams.source import FORMAT
from towpath.streams.thinning import ThinningOption

DEFAULT_EVENTS_PER_BATCH = 100_000
"""Limit of a micro-batch that catches up: some tens of megabytes, and a few seconds of work."""

compiling = threading.Lock()
"""Compiling and starting change a setting of the session for a moment, so jobs do so one at a time."""


def compile_for(
    session: SparkSession, settings: EngineSettings, assignment: Assignment, pause: Path
) -> DataFrame:
    """Return the job's plan over its streams. Raises `TowpathError` for what does not fit."""
    spec = assignment.spec
    kind = kind_of(spec.operator)
    is_patient = len(spec.inputs) == 1 and kind.needs_no_empty_batch(spec.operator)

    def read(resolved: ResolvedInput, reading: Reading) -> DataFrame:
        options = {
            **source_options(settings, resolved),
            **batch_options(assignment),
            **reading.options(),
            "after_serial": "" if resolved.after_serial is None else str(resolved.after_serial),
            "on_loss": resolved.on_loss,
            "pause_file": str(pause),
            "bound_file": str(bound_file(pause)),
            "shares_file": str(shares_file(pause)),
            "trigger_s": str(trigger_s(spec)),
            "aligned": "true" if kind.covers_batches and trigger_s(spec) > 0 else "false",
            "patient": "true" if is_patient else "false",
            "nudge": "true" if keeps_state(spec.operator) else "false",
            "recall": "true" if kind.watermarked(spec.operator) and len(spec.inputs) > 1 else "false",
            "read_ahead": "false" if is_cluster(settings.spec) else "true",
            "job": spec.name,
        }
        return session.readStream.format(FORMAT).options(**options).load()

    with compiling:
        return compile_job(assignment, read)


def source_options(settings: EngineSettings, resolved: ResolvedInput) -> dict[str, str]:
    """Return the options of the Spark source that say what to read, and how."""
    access = settings.access()
    return {
        "url": access.url,
        "credentials_file": access.credentials_file,
        "stream": resolved.local_stream(settings.site),
        "subject": resolved.subject or "",
        "identity": ",".join(resolved.identity),
        "repeats_within": str(resolved.repeats_within),
        "sample": "" if resolved.sample is None else repr(resolved.sample),
        "thinning": _thinning_option(resolved.thinning),
        "cores": str(settings.cores),
    }


def batch_options(assignment: Assignment) -> dict[str, str]:
    """Return the options of the Spark source that limit what a micro-batch reads from each input."""
    operator = assignment.spec.operator
    exact = kind_of(operator).batch_events(operator)
    if exact is not None:
        return {"exact_events": str(exact)}
    bound = events_per_batch(assignment)
    return {} if bound is None else {"max_events": str(bound)}


def events_per_batch(assignment: Assignment) -> int | None:
    """Return the most events of each input in a micro-batch. None for no limit."""
    # A result that covers a micro-batch holds all events that came. A limit by default would cut it.
    default = None if kind_of(assignment.spec.operator).covers_batches else DEFAULT_EVENTS_PER_BATCH
    bound = assignment.spec.max_events_per_batch or default
    return None if bound is None else max(bound // len(assignment.inputs), 1)


def bound_file(pause: Path) -> Path:
    """Return the file with the limit of micro-batches. It exists if that changed since the start."""
    return pause.with_name("bound")


def shares_file(pause: Path) -> Path:
    """Return the file with the shares of events that suffice."""
    return pause.with_name("shares")


def _thinning_option(thinning: Thinning | None) -> str:
    return "" if thinning is None else ThinningOption(tuple(thinning.strata), thinning.salience).option()


def trigger_s(spec: JobSpec) -> float:
    """Return the seconds between the starts of micro-batches."""
    return kind_of(spec.operator).batch_s(spec.operator) or spec.trigger_s
