"""Read ranges of a stream's serial numbers: the events of the topic, of the sample, and no repeats."""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from towpath.streams.decoding import EventDecoder, decoder_of
from towpath.streams.failures import EventsLost
from towpath.streams.log_reader import FRESH_S, Access, LogReader, reader_for
from towpath.streams.lost_events import LostEvents
from towpath.streams.passing import ChangedMessage
from towpath.streams.reading import Reading
from towpath.streams.repeats import Repeats, repeats_of
from towpath.streams.sampling import sampled
from towpath.streams.stream_view import StreamView
from towpath.streams.thinning import Thinner, ThinningOption, with_weights

if TYPE_CHECKING:
    from natsrpy.js import JetStreamMessage

    Event: TypeAlias = JetStreamMessage | ChangedMessage

SPLIT_EVENTS = 25_000
"""Several tasks read a micro-batch above this size. Below it, a second task costs more than it gains."""


@dataclass(frozen=True)
class SerialRange(InputPartition):
    """Serial numbers `after < serial ≤ through`."""

    after: int
    through: int
    shares: Mapping[str, float] = field(default_factory=dict)
    """Of these the shares that are read, see `thinning`."""


@dataclass(frozen=True)
class Recalled(InputPartition):
    """The last events up to serial number `through`. An earlier run of the query has processed them.

    Readers get negative serial numbers for them.
    """

    through: int


class EventReader:
    """Reads ranges of a stream's serial numbers."""

    def __init__(self, options: dict[str, Any]) -> None:
        # Spark passes option names in lower case.
        self.access = Access(options["url"], options["credentials_file"])
        self.stream: str = options["stream"]
        self.subject: str | None = options.get("subject") or None
        self.cores = int(options.get("cores") or 1)
        self.reading = Reading.of(options)
        self.identity: list[str] = [*filter(None, options.get("identity", "").split(","))]
        self.repeats_within = int(options.get("repeats_within") or 0)
        self.sample = float(options.get("sample") or 1)
        self.thinning = ThinningOption.of(options.get("thinning") or "")
        self.passes_over_losses = False
        # Another run may find another stream of that name, so it remembers nothing of this one.
        self.run = uuid.uuid4().hex

    @property
    def log(self) -> LogReader:
        """The process's reader of the site's streams."""
        return reader_for(self.access)

    @functools.cached_property
    def decoder(self) -> EventDecoder:
        """The decoder. It is made where it is used: a reader travels to Spark's workers."""
        return decoder_of(self.reading)

    @functools.cached_property
    def thinner(self) -> Thinner:
        """Chooses events by shares."""
        assert self.thinning is not None
        return Thinner(self.thinning, self.reading)

    def decoded(
        self, messages: Sequence[Event], *, sign: int = 1, shares: Mapping[str, float] | None = None
    ) -> pa.RecordBatch:
        """Return messages as a batch with the source's columns: those that the shares leave.

        Serial numbers are multiplied by `sign`.
        """
        weights: list[float] | None = None
        if shares and self.thinning is not None:
            messages, weights = self._thinned(messages, shares)
        batch = self._batch(messages, sign)
        return with_weights(batch, weights) if self.reading.weighs else batch

    def _thinned(
        self, messages: Sequence[Event], shares: Mapping[str, float]
    ) -> tuple[Sequence[Event], list[float]]:
        of_each = self.thinner.shares(
            [message.stream_sequence for message in messages],
            self.decoder.as_json([message.payload for message in messages]),
            shares,
        )
        kept = [(m, share) for m, share in zip(messages, of_each, strict=True) if share]
        return [message for message, _ in kept], [share for _, share in kept]

    def _batch(self, messages: Sequence[Event], sign: int) -> pa.RecordBatch:
        serials = [sign * message.stream_sequence for message in messages]
        lost = {n: m.reason for n, m in enumerate(messages) if isinstance(m, LostEvents)}
        stored_at, payloads = [m.published for m in messages], [m.payload for m in messages]
        return self.decoder.batch(serials, stored_at, payloads, lost)

    def split(
        self, after: int, through: int, shares: Mapping[str, float] = MappingProxyType({})
    ) -> list[InputPartition]:
        """Split a range into equal ones: one, or up to one for each core when there is a backlog."""
        count = max(1, min(self.cores, -(-(through - after) // SPLIT_EVENTS)))
        edges = [after + (through - after) * k // count for k in range(count + 1)]
        return [SerialRange(a, b, {**shares}) for a, b in itertools.pairwise(edges) if b > a]

    def bundles(self, partition: InputPartition) -> Iterator[Sequence[Event]]:
        """Yield the events of a range, some thousand at a time, without those that repeat earlier ones."""
        assert isinstance(partition, SerialRange)
        return self._first_ones(partition) if self.identity else self._stored(partition)

    def _stored(self, numbers: SerialRange) -> Iterator[Sequence[Event]]:
        after = numbers.after
        if after >= numbers.through:
            return
        try:
            if self.passes_over_losses and self._view().first > after + 1:
                raise EventsLost(self.stream, after + 1, self._view().first - 1)
            for messages in self.log.read(self.stream, after, numbers.through):
                after = messages[-1].stream_sequence
                if kept := self._chosen(messages):
                    yield kept
        except EventsLost as lost:
            if not self.passes_over_losses:
                raise
            gap = LostEvents.of(lost, numbers.through)
            yield from self._stored(SerialRange(after, lost.first - 1))
            yield [gap]
            yield from self._stored(SerialRange(gap.stream_sequence, numbers.through))

    def _chosen(self, messages: Sequence[Event]) -> Sequence[Event]:
        """The messages of the sample, and of the topic."""
        if self.sample < 1:
            # First, because it costs less for each: they have serial numbers without a gap.
            first, last = messages[0].stream_sequence, messages[-1].stream_sequence
            messages = [*itertools.compress(messages, sampled(range(first, last + 1), self.sample))]
        if self.subject is not None:
            messages = [m for m in messages if m.subject == self.subject]
        return messages

    def _first_ones(self, numbers: SerialRange) -> Iterator[Sequence[Event]]:
        repeats = self._repeats()
        for messages in self._still_kept(SerialRange(repeats.begin(numbers.after), numbers.after)):
            repeats.first_ones(messages)
        for messages in self._stored(numbers):
            first_ones = repeats.first_ones(messages)
            if first_ones:
                yield first_ones
        repeats.position = numbers.through

    def _repeats(self) -> Repeats:
        """Return what is remembered of the events read so far."""
        return repeats_of(self.run, self.identity, self.repeats_within, self.decoder.to_json or bytes)

    def _still_kept(self, numbers: SerialRange) -> Iterator[Sequence[Event]]:
        """Yield the events of a range, as far as they are kept. The oldest may expire meanwhile."""
        after = numbers.after
        while after < numbers.through:
            after = max(after, self._view(0).first - 1)
            try:
                yield from self._stored(SerialRange(after, numbers.through))
                return
            except EventsLost:
                if self._view(0).first - 1 <= after:
                    raise

    def _view(self, fresh_s: float = FRESH_S) -> StreamView:
        return self.log.view(self.stream, fresh_s)


class RangeReader(EventReader, DataSourceReader):
    """Reads one range of serial numbers, given by the options `after` and `through`."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.range = SerialRange(int(options["after"]), int(options["through"]))

    def partitions(self) -> Sequence[InputPartition]:
        """Return equal ranges, one for each task."""
        return self.split(self.range.after, self.range.through)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a range, as Arrow batches."""
        return map(self.decoded, self.bundles(partition))

    def _repeats(self) -> Repeats:
        """Remember nothing beyond this range: no other follows it."""
        return Repeats(self.identity, self.repeats_within, self.decoder.to_json or bytes)
