"""The data path from device to subscriber, with every possible failure, without Spark.

Intake, reading, publishing, reading back and fencing are Towpath's own code; the broker, the server, the
operator and its checkpoints are simulated.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

from checker_runs import BEGIN_S, events_of
from checker_server import Server, Stream

from running.publishing import always
from towpath.brokers.overlap import Overlap, Seen
from towpath.checker.identity import utc
from towpath.checker.moments import written
from towpath.checker.records import recorded
from towpath.checker.rule import Terms
from towpath.checker.rules import NamedLines, judge_by_rule
from towpath.checker.verdict import Verdict
from towpath.contracts.data_plane import (
    MESSAGE_ID_HEADER,
    OVERLAP,
    RESULT_ID_HEADER,
    output_stream,
    shadow_stream,
    shadow_subject,
    sink_subject,
)
from towpath.streams import sink
from towpath.streams.encoding import Message
from towpath.streams.failures import Fenced
from towpath.streams.log_reader import LogReader
from towpath.streams.publisher import Outgoing, Publisher

T = TypeVar("T")

SITE, JOB = "jfk", "sums"
OUT = output_stream(JOB)
BATCH = 40
SIZE_S = 2
WATERMARK_S = 3


@dataclass
class Delivered:
    """A message of the broker to the intake."""

    seen: Seen
    again: bool
    event: dict[str, Any]


class MemoryReader(LogReader):
    """Towpath's reader, of a list instead of a broker."""

    def __init__(self, stored: list[bytes], kept_from: int = 1) -> None:
        self._stored, self._kept_from = stored, kept_from
        self._consumers = {}

    def _patiently(self, attempt: Any) -> Any:
        try:
            attempt().send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("memory does not wait")

    async def _fetch(self, stream: str, start: int, count: int) -> list[Any]:
        """Read as a consumer does, which skips messages that are not kept any more."""
        first = max(start, self._kept_from)
        serials = range(first, min(first + count, len(self._stored) + 1))
        return [SimpleNamespace(stream_sequence=s, payload=self._stored[s - 1]) for s in serials]


@dataclass
class Operator:
    """Sums of windows by key; a window closes when the watermark has reached its end."""

    open: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    watermark: float = 0.0
    position: int = 0

    def window_of(self, second: float) -> int:
        return int(second // SIZE_S)

    def closes(self, window: int) -> bool:
        return (window + 1) * SIZE_S <= self.watermark

    def take(self, messages: Iterable[Any]) -> list[dict[str, Any]]:
        """Process a micro-batch. Return the results of windows that closed."""
        newest = self.watermark + WATERMARK_S
        for message in messages:
            event = json.loads(message.payload)
            second = utc(event["at"]).timestamp()
            held = self.open.setdefault((self.window_of(second), event["device"]), {"sum": 0, "count": 0})
            held |= {"sum": held["sum"] + event["delay"], "count": held["count"] + 1}
            held["serial"] = self.position = message.stream_sequence
            newest = max(newest, second)
        self.watermark = newest - WATERMARK_S
        closed = sorted(place for place in self.open if self.closes(place[0]))
        return [self._result(place, self.open.pop(place)) for place in closed]

    def _result(self, place: tuple[int, str], held: dict[str, Any]) -> dict[str, Any]:
        window, device = place
        bounds = [written(at * SIZE_S * 1_000_000) for at in (window, window + 1)]
        return {
            "serial": held["serial"],
            "stored_at": written((BEGIN_S + held["serial"]) * 1_000_000),
            "window": {"start": bounds[0], "end": bounds[1]},
            "count": held["count"],
            "key": {"device": device},
            "values": {"sum": held["sum"]},
        }

    def checkpoint(self) -> Operator:
        """Return a copy of the state and its position."""
        state = {place: dict(held) for place, held in self.open.items()}
        return type(self)(state, self.watermark, self.position)


class Engine:
    """One owner of the job: the operator, and Towpath's own sink."""

    def __init__(self, path: DataPath, epoch: int, operator: Operator, batch: int = 0) -> None:
        self.path, self.epoch, self.operator, self.batch = path, epoch, operator, batch
        self._publisher = Publisher(always(path.server))  # type: ignore[arg-type]
        assignment: Any = SimpleNamespace(
            spec=SimpleNamespace(name=JOB),
            epoch=epoch,
            generation=1,
            output=SimpleNamespace(site=SITE, stream=OUT),
        )
        self._sink = sink.JobSink(self, assignment)  # type: ignore[arg-type]

    def run(self, through: int, crash: bool = False) -> None:
        """Process what is stored, micro-batch by micro-batch. With `crash`, die before the last commit."""
        while self.operator.position < through:
            committed = self.operator.checkpoint()
            end = min(through, self.operator.position + BATCH)
            self.publish_batch(self.operator, end)
            if crash and end == through:
                self.operator = committed
                return
            self.batch += 1

    def publish_batch(self, operator: Operator, end: int) -> None:
        messages = [m for part in self.path.reader.read("IN", operator.position, end) for m in part]
        bodies = operator.take(messages)
        rows = [{"job": JOB, "site": SITE, "epoch": self.epoch, **body} for body in bodies]
        ids = [f"{JOB}/{row['window']['start']}/{row['key']['device']}" for row in rows]
        results = [Message(name, json.dumps(row).encode()) for name, row in zip(ids, rows, strict=True)]
        self._sink(results, [], self.batch)

    # What the sink asks of its connection.

    site = SITE

    def publish(self, messages: list[Outgoing], *, site: str, stream: str, batch: str) -> int:
        return self._run(self._publisher.publish(messages, site=site, stream=stream, batch=batch))

    def life_of(self, *, site: str, stream: str) -> str:
        return self._run(sink.stream_life(self.path.server, site, stream))

    def published_since(self, **of: Any) -> set[str]:
        return self._run(sink.published_since(self.path.server, **of))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.path.loop.run_until_complete(work)


class DataPath:
    """A site with one job, and what befalls them."""

    def __init__(
        self, seed: int, loop: asyncio.AbstractEventLoop, operator: type[Operator] = Operator
    ) -> None:
        self.chance = random.Random(seed)
        self.loop = loop
        self.server = Server()
        self.events = events_of(self.chance, 500)
        self.stored: list[bytes] = []
        self.reader = MemoryReader(self.stored)
        self._open_output(life=1)

    def _open_output(self, life: int) -> None:
        self.server.output = OUT
        self.server.streams[OUT] = Stream(OUT, [], life=life)
        self.accept(1)

    def accept(self, *epochs: int, overlap: str = "0-0") -> None:
        """Let the output take results of these epochs."""
        stream = self.server.streams[OUT]
        stream.subjects = [sink_subject(SITE, SITE, JOB, epoch) for epoch in epochs]
        stream.metadata = {OVERLAP: overlap}

    # Events and failures.

    def devices_send(self) -> None:
        """Let events come in. The broker restarts once, and repeats messages that were not acknowledged."""
        sent = [Delivered(Seen(n % 65_535 + 1, str(e["id"])), False, e) for n, e in enumerate(self.events)]
        cut = self.chance.randrange(200, 300)
        again = self.chance.randrange(3, 20)
        self._intake(sent[:cut], [])
        repeated = [Delivered(m.seen, True, m.event) for m in sent[cut - again : cut]]
        self._intake([*repeated, *sent[cut:]], [m.seen for m in sent[:cut]])

    def _intake(self, messages: list[Delivered], stored: list[Seen]) -> None:
        overlap: Overlap[Delivered] = Overlap(stored)
        for message in messages:
            _, new = overlap.offer(message)
            self.stored += [json.dumps(each.event).encode() for each in new]
        self.stored += [json.dumps(each.event).encode() for each in overlap.give_up()]

    def crash_and_repeat(self, engine: Engine, through: int, *, long_after: bool = False) -> Engine:
        """Publish a micro-batch without committing it. Another process repeats it."""
        engine.run(through, crash=True)
        if long_after:
            self.server.forget_ids()
        return Engine(self, engine.epoch, engine.operator, engine.batch)

    def hand_over(self, source: Engine, through: int) -> Engine:
        """Let a target work in the shadow, take the output over, and repeat its last micro-batch.

        The source publishes meanwhile, lags behind, and publishes once more when its epoch is over.
        """
        server = self.server
        target = Engine(self, source.epoch + 1, source.operator.checkpoint(), source.batch)
        shadowed = shadow_subject(sink_subject(SITE, SITE, JOB, target.epoch))
        server.streams[shadow_stream(JOB)] = Stream(shadow_stream(JOB), [shadowed])
        before = len(server.streams[OUT].messages)
        source.run(source.operator.position + BATCH // 2)
        target.run(through, crash=True)
        self._settle(before, target.epoch)
        target.run(through)
        self._publish_as_a_zombie(source)
        return target

    def _settle(self, before: int, epoch: int) -> None:
        """Move waiting results from the shadow to the output, and change its owner. By then ids are gone."""
        stored = {
            headers[MESSAGE_ID_HEADER] for _, headers, _ in self.server.streams[OUT].messages if headers
        }
        waiting = self.server.streams.pop(shadow_stream(JOB)).messages
        output = self.server.streams[OUT]
        for _, headers, body in waiting:
            identity = headers.get(RESULT_ID_HEADER)
            if identity not in stored:
                kept = {**headers, MESSAGE_ID_HEADER: identity} if identity else headers
                self.server._store(output, sink_subject(SITE, SITE, JOB, epoch), kept, body)
        self.server.forget_ids()
        self.accept(epoch, overlap=f"{before}-{len(output.messages)}")

    def _publish_as_a_zombie(self, source: Engine) -> None:
        with suppress(Fenced):
            source.run(len(self.stored))

    def run(self) -> Verdict:
        """Let everything happen to one life of a job. Return the verdict on its results."""
        self.devices_send()
        last = len(self.stored)
        engine = Engine(self, 1, Operator())
        engine = self.crash_and_repeat(engine, 160)
        engine = self.crash_and_repeat(engine, 280, long_after=True)
        engine.run(280)
        engine = self.hand_over(engine, 400)
        engine.run(last)
        return self.verdict()

    def deploy_again(self) -> Verdict:
        """Remove the job and deploy it again: job and output begin from nothing."""
        self.devices_send()
        Engine(self, 1, Operator()).run(len(self.stored))
        self._open_output(life=2)
        self.server.delivered.clear()
        Engine(self, 1, Operator()).run(len(self.stored))
        return self.verdict()

    def verdict(self) -> Verdict:
        """Return the verdict on the subscriber's results and the log."""
        terms = Terms(
            key=("device",), time_field="at", size_s=SIZE_S, value_field="delay", watermark_s=WATERMARK_S
        )
        events = ((n, json.dumps(event).encode()) for n, event in enumerate(self.events, start=1))
        stored = [(n, body) for n, (_, _, body) in enumerate(self.server.streams[OUT].messages, start=1)]
        return judge_by_rule(
            "window-sum",
            terms,
            NamedLines("events", events),
            NamedLines("subscriber", _recorded(self.server.delivered)),
            log=NamedLines("log", _recorded(stored)),
        )


def _recorded(messages: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    for number, (offset, body) in enumerate(messages, start=1):
        yield number, recorded("out", body, offset=offset)
