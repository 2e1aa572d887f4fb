"""The report of the experiments: `demo/faults.json`."""

from __future__ import annotations

from towpath.contracts.message import Model
from towpath.lab.demonstration.report import DemonstrationReport


class Batch(Model):
    """One micro-batch, as the instrumentation rule measured it."""

    number: int
    started_at: float
    """Unix seconds."""
    events: int
    processing_s: float
    """Seconds that its tasks took."""
    scheduling_s: float
    """Seconds that all else took since its trigger: planning, and the logs before and after."""
    total_s: float

    @property
    def throughput(self) -> float:
        """Events per second while it was worked on."""
        return self.events / self.total_s if self.total_s > 0 else 0.0


class Mark(Model):
    """A rule that was loaded or unloaded."""

    at: float
    """Unix seconds, when the injector had confirmed it."""
    rule: str
    what: str
    """The worker or site that it slows down."""
    loaded: bool
    """True if it was loaded, false if it was unloaded."""


class StaircasePhase(Model):
    """The time from one mark to the next."""

    slow: list[str]
    """Workers that are slowed down meanwhile."""
    begun_at: float
    ended_at: float
    batches: int
    """Those that began in the phase, its first second left out."""
    events_per_batch: float | None = None
    processing_s: float | None = None
    """Mean, like the following."""
    scheduling_s: float | None = None
    total_s: float | None = None
    throughput: float | None = None
    """Events per second while batches were worked on: all events by all total delays."""


class Staircase(Model):
    """Delays loaded on the workers one by one, and unloaded one by one."""

    every: int
    """Lines from one delayed line to the next, counted in each Python worker."""
    delay_ms: float
    sent: int
    rate: float
    """Lines per second that came in meanwhile."""
    phases: list[StaircasePhase]
    marks: list[Mark]
    batches: list[Batch]
    delays: dict[str, int]
    """Rule → how often it acted."""


class WordCountReport(Model):
    """The word count on a cluster."""

    workers: int
    rate: float
    """Lines per second that were to be sent."""
    step_s: float
    trigger_s: float
    staircases: list[Staircase]
    words_sent: int
    words_counted: int
    """Words of closed windows: all words, if all lines were counted exactly once."""

    @property
    def exact(self) -> bool:
        """True if every word was counted exactly once."""
        return self.words_sent == self.words_counted > 0


class MigrationStep(Model):
    """One step of the migration, as its journal has it."""

    name: str
    at: float
    """Unix seconds, when it was done."""


class HandoverReport(Model):
    """The departures pipeline, whose two sites were slowed down around a handover."""

    every: int
    delay_ms: float
    marks: list[Mark]
    steps: list[MigrationStep]
    delays: dict[str, int]
    pipeline: DemonstrationReport


class FaultsReport(Model):
    """Both experiments, or the one that was asked for."""

    seconds: float = 0.0
    """Of the whole run, start and stop of meshes included."""
    load_before: list[float] = []
    """The machine's load averages before the run."""
    word_count: WordCountReport | None = None
    handover: HandoverReport | None = None

    @property
    def clean(self) -> bool:
        """True if nothing was lost, repeated or wrong."""
        counted = self.word_count is None or self.word_count.exact
        return counted and (self.handover is None or self.handover.pipeline.clean)
