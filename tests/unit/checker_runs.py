"""Runs without faults, made from a seed: the events fed in, and the results a subscriber received."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from towpath.checker.history import Line
from towpath.checker.identity import utc
from towpath.checker.moments import written
from towpath.checker.records import recorded
from towpath.checker.rule import Terms
from towpath.checker.rules import NamedLines, judge_by_rule
from towpath.checker.verdict import Leniency, Verdict

BEGIN_S = 1_767_225_600
"""2026-01-01 UTC."""

KEYS = ("alpha", "beta", "gamma", "delta")
SIZE_S = 10
LENIENCY = Leniency(late_after_s=5.0)


@dataclass(frozen=True)
class Message:
    """A result as it came."""

    body: dict[str, Any]
    received_at: float
    offset: int | None
    connection: int = 1
    raw: bytes | None = None
    """The payload, if it is not the body's JSON."""

    def line(self) -> bytes:
        payload = json.dumps(self.body).encode() if self.raw is None else self.raw
        return recorded(
            "out",
            payload,
            received_at=self.received_at,
            connection=self.connection,
            subscriber="reader",
            offset=self.offset,
        )


@dataclass
class Run:
    """Events and their results."""

    rule: str
    terms: Terms
    events: list[dict[str, Any]]
    messages: list[Message]
    random: random.Random
    stored: list[Message] = field(default_factory=list)
    """Messages in the log; empty if it was not read."""

    def verdict(self) -> Verdict:
        log = NamedLines("log", _lines([m.line() for m in self.stored])) if self.stored else None
        events = _lines([json.dumps(event).encode() for event in self.events])
        output = _lines([message.line() for message in self.messages])
        return judge_by_rule(
            self.rule,
            self.terms,
            NamedLines("events", events),
            NamedLines("output", output),
            leniency=LENIENCY,
            log=log,
        )

    def change(self, at: int, **body: Any) -> None:
        """Change members of one result."""
        message = self.messages[at]
        self.messages[at] = replace(message, body=message.body | body)

    def first_copies(self) -> list[int]:
        """Return the places of results that came on the first connection."""
        return [at for at, message in enumerate(self.messages) if message.connection == 1]


def _lines(texts: list[bytes]) -> Iterator[Line]:
    return iter([*enumerate(texts, start=1)])


def events_of(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Events in the order in which they were stored: nearly in that of their times."""
    events = []
    for number in range(count):
        at = number * 0.1 + chance.random() * 2
        events.append(
            {
                "id": number,
                "at": written(int((BEGIN_S + at) * 1_000_000)),
                "device": chance.choice(KEYS),
                "delay": chance.randrange(1, 60),
                "text": " ".join(chance.choices(("edge", "cloud", "Edge", "fog"), k=3)),
            }
        )
    return events


def _received(chance: random.Random, bodies: list[dict[str, Any]], stored_at: list[float]) -> list[Message]:
    """Results as a subscriber receives them who is cut off once: some come again."""
    change = len(bodies) // 2
    messages = []
    for number, (body, at) in enumerate(zip(bodies, stored_at, strict=True)):
        epoch = 1 if number < change else 2
        body = {
            "job": "job",
            "site": "jfk",
            "epoch": epoch,
            **body,
            "stored_at": written(int(at * 1_000_000)),
        }
        messages.append(Message(body, at + 0.1 + chance.random(), number + 1))
    cut = len(messages) - chance.randrange(len(messages) // 8, len(messages) // 4)
    again = messages[cut - chance.randrange(1, 6) : cut]
    # Copies come in the midst of what is new, as brokers bring them.
    after = [replace(m, connection=2) for m in messages[cut:]]
    for number, message in enumerate(again):
        place = min(len(after), 2 * number)
        after.insert(place, replace(message, connection=2, received_at=message.received_at + 3))
    return messages[:cut] + after


def window_run(seed: int) -> Run:
    """Sums of 10-second windows by key, closed window by window, keys in any order."""
    chance = random.Random(seed)
    events = events_of(chance, 600)
    groups: dict[tuple[int, str], list[tuple[int, dict[str, Any]]]] = {}
    for serial, event in enumerate(events, start=1):
        window = int(_second(event) // SIZE_S)
        groups.setdefault((window, event["device"]), []).append((serial, event))
    places = sorted(groups, key=lambda place: (place[0], chance.random()))
    bodies, stored_at = [], []
    for window, device in places:
        serial = max(number for number, _ in groups[window, device])
        bodies.append(
            {
                "serial": serial,
                "window": _bounds(window),
                "key": {"device": device},
                "count": len(groups[window, device]),
                "values": {"sum": sum(event["delay"] for _, event in groups[window, device])},
            }
        )
        stored_at.append(BEGIN_S + serial * 0.1 + 2.5)
    terms = Terms(key=("device",), time_field="at", size_s=SIZE_S, value_field="delay")
    return Run("window-sum", terms, events, _received(chance, bodies, stored_at), chance)


def _second(event: dict[str, Any]) -> float:
    return utc(event["at"]).timestamp()


def _bounds(window: int) -> dict[str, str]:
    ends = (window * SIZE_S, (window + 1) * SIZE_S)
    return {name: written(at * 1_000_000) for name, at in zip(("start", "end"), ends, strict=True)}


def event_run(seed: int, count: int = 300) -> Run:
    """Every event passed on as it is; keys get mixed up, the order within each does not."""
    chance = random.Random(seed)
    events = events_of(chance, count)
    order = _shuffled_across_keys(chance, events)
    bodies = [{"serial": event["id"] + 1, "count": 1, "values": event} for event in order]
    stored_at = [BEGIN_S + event["id"] * 0.1 + 2.5 for event in order]
    terms = Terms(key=("device",), identity=("id",))
    return Run("pass-through", terms, events, _received(chance, bodies, stored_at), chance)


def _shuffled_across_keys(chance: random.Random, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    order = [*events]
    for place in range(len(order) - 1):
        if order[place]["device"] != order[place + 1]["device"] and chance.random() < 0.3:
            order[place], order[place + 1] = order[place + 1], order[place]
    return order


def filter_run(seed: int) -> Run:
    """The events whose delay is above 30."""
    run = event_run(seed)
    messages = [m for m in run.messages if m.body["values"]["delay"] > 30]
    terms = replace(run.terms, where="delay > 30 && device != 'unknown'")
    return replace(run, rule="filter", terms=terms, messages=messages)


def range_run(seed: int) -> Run:
    """Counts over ranges of serial numbers that end where the job happened to look."""
    chance = random.Random(seed)
    events = events_of(chance, 300)
    ends = [0, *sorted(chance.sample(range(1, 300), 20)), 300]
    bodies, stored_at = [], []
    for after, through in itertools.pairwise(ends):
        devices = [event["device"] for event in events[after:through]]
        for device in chance.sample(sorted(set(devices)), len(set(devices))):
            body = {"serial": through, "after": after, "through": through, "key": {"device": device}}
            bodies.append(body | {"count": 1, "values": {"count": devices.count(device)}})
            stored_at.append(BEGIN_S + through * 0.1)
    return Run("range-count", Terms(key=("device",)), events, _received(chance, bodies, stored_at), chance)


def running_run(seed: int) -> Run:
    """A running count of events for each key."""
    run = event_run(seed)
    counts = dict.fromkeys(KEYS, 0)
    numbers: dict[int, int] = {}
    for event in run.events:
        counts[event["device"]] += 1
        numbers[event["id"]] = counts[event["device"]]

    def counted(message: Message) -> Message:
        event = message.body["values"]
        values = {"device": event["device"], "count": numbers[event["id"]]}
        return replace(message, body=message.body | {"values": values})

    return replace(
        run, rule="running-count", terms=Terms(key=("device",)), messages=[*map(counted, run.messages)]
    )


def latest_run(seed: int) -> Run:
    """The newest event of each key, now and then."""
    run = event_run(seed)
    last = {event["device"]: event["id"] for event in run.events}
    kept = [
        m for m in run.messages if m.body["values"]["id"] % 7 == 0 or m.body["values"]["id"] in last.values()
    ]
    return replace(run, rule="latest-by-key", messages=kept)


def words_run(seed: int) -> Run:
    """Running counts of each word."""
    chance = random.Random(seed)
    events = events_of(chance, 200)
    words = " ".join(event["text"] for event in events).split()
    bodies = [
        {"serial": 200, "count": 1, "values": {"word": word, "count": words.count(word)}}
        for word in chance.sample(sorted(set(words)), 4)
    ]
    messages = [
        Message(
            {"job": "job", "site": "jfk", "epoch": 1, **body, "stored_at": written(BEGIN_S * 1_000_000)},
            BEGIN_S + 1.0,
            number,
        )
        for number, body in enumerate(bodies, start=1)
    ]
    return Run("word-count", Terms(), events, messages, chance)


RUNS: dict[str, Callable[[int], Run]] = {
    "window-sum": window_run,
    "pass-through": event_run,
    "filter": filter_run,
    "range-count": range_run,
    "running-count": running_run,
    "latest-by-key": latest_run,
    "word-count": words_run,
}
"""A run of each kind, made from a seed."""
