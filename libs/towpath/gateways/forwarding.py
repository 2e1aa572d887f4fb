"""Send the log's results to the site's broker while there is a connection, each until acknowledged."""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import Any

import msgspec

from towpath.gateways.completeness import DEVICE, DROPPED, LOG, SEQUENCE
from towpath.gateways.result_log import ResultLog
from towpath.mqtt.connection import MqttConnection

log = logging.getLogger(__name__)

IN_FLIGHT = 100
"""Results sent and not acknowledged yet."""

SAVE_EVERY_S = 1.0
"""Time between two records of what was delivered. So many seconds of results come again after a kill."""

REFUSED_S = 5.0
"""Pause before a result that the broker has refused is sent again: its rights may be corrected."""


class Result(msgspec.Struct, frozen=True):
    """A result as the log keeps it."""

    application: str
    topic: str
    fields: dict[str, Any]


class Forwarder:
    """Sends results over one connection after another. `live_first`: see `_lanes`.

    `after` and `through` bound the numbers of its results.
    """

    def __init__(
        self,
        results: ResultLog,
        device: str,
        *,
        live_first: bool,
        after: int = 0,
        through: int | None = None,
    ) -> None:
        self._log = results
        self._device = device
        self._live_first = live_first
        self._after = after
        self.through = through
        self._in_flight: dict[int, asyncio.Future[Any]] = {}
        self._backlog_ends = after
        """Number of the newest result when the connection was made."""
        self._saved_at = 0.0
        self._refused: dict[int, None] = {}
        """Results that the broker has refused. Others go on, and these are tried one after the other."""
        self._tried: set[int] = set()
        """Those of them that are in flight again."""
        self._most_tried = 1
        """As many may be in flight again: more as long as the broker takes them."""
        self._try_at = 0.0
        self.refusal: str | None = None
        """Reason of the last refusal, as long as there are refused results."""

    def connected(self) -> None:
        """Begin with a new connection: what was in flight, and is not acknowledged, is sent again."""
        self._settle()
        self._in_flight.clear()
        self._refused.clear()
        self._tried.clear()
        self.refusal = None
        self._backlog_ends = max(self._after, self._log.last)

    @property
    def in_flight(self) -> int:
        """Number of results sent and not acknowledged yet."""
        return len(self._in_flight)

    def send(self, connection: MqttConnection, *, beside: int = 0) -> None:
        """Hand over as many results as may be in flight. Returns at once.

        `beside`: results of others that are in flight on this connection.
        """
        self._settle()
        now = asyncio.get_running_loop().time()
        free = min(IN_FLIGHT, connection.window) - len(self._in_flight) - beside
        if self._refused and not self._tried and now >= self._try_at:
            free -= self._try_again(connection, min(free, self._most_tried))
        for after, share in self._lanes(free):
            for number, payload in self._log.read(self._beyond(after), share, self.through):
                self._publish(connection, number, payload)
        if now - self._saved_at >= SAVE_EVERY_S:
            self._saved_at = now
            try:
                self._log.save()
            except OSError as error:  # Results go on. A kill would have some come again.
                log.warning("what was delivered cannot be noted: %s", error)

    def _lanes(self, free: int) -> list[tuple[int, int]]:
        """Return where to read, and how much: half for new results, so that a backlog does not block them.

        A receiver that needs results in their order wants one lane.
        """
        if free <= 0:
            return []
        if not self._live_first or self._log.read(self._after, 1) == self._log.read(self._backlog_ends, 1):
            return [(self._after, free)]
        return [(self._backlog_ends, (free + 1) // 2), (self._after, free // 2)]

    def _beyond(self, after: int) -> int:
        """Return the number behind which nothing of this lane is in flight."""
        is_backlog = self._live_first and after < self._backlog_ends
        passed = (*self._in_flight, *self._refused)
        mine = [n for n in passed if n > after and (not is_backlog or n <= self._backlog_ends)]
        return max(mine, default=after)

    def _try_again(self, connection: MqttConnection, most: int) -> int:
        """Send the oldest refused results again, at most so many. Return their number."""
        for number in [*islice(self._refused, max(most, 0))]:
            found = self._log.read(number - 1, 1, number)
            if not found:  # The log has dropped it meanwhile.
                del self._refused[number]
            for _, payload in found:
                self._publish(connection, number, payload)
                self._tried.add(number)
        return len(self._tried)

    def _publish(self, connection: MqttConnection, number: int, payload: bytes) -> None:
        if number in self._in_flight:
            return
        self._log.sync()
        result = msgspec.json.decode(payload, type=Result)
        mark = {
            DEVICE: self._device,
            "application": result.application,
            LOG: self._log.identity,
            SEQUENCE: number,
            DROPPED: self._log.dropped,
        }
        sent = connection.publish(result.topic, msgspec.json.encode(result.fields | mark))
        self._in_flight[number] = sent

    def _settle(self) -> None:
        """Note what was acknowledged. What failed is sent again over the next connection.

        What was refused is sent again after a pause.
        """
        for number, sent in [*self._in_flight.items()]:
            if sent.done():
                del self._in_flight[number]
                if sent.exception() is not None:
                    continue
                refused = next((code for code in sent.result() if code.is_failure), None)
                if refused is None:
                    self._note_delivery(number)
                else:
                    self._note_refusal(number, f"result {number}: {refused}")

    def _note_delivery(self, number: int) -> None:
        self._log.delivered(number)
        if number in self._tried:
            self._tried.discard(number)
            del self._refused[number]
            self._most_tried = min(2 * self._most_tried, IN_FLIGHT)
        if not self._refused:
            self.refusal = None

    def _note_refusal(self, number: int, why: str) -> None:
        if self.refusal is None:
            log.warning("the broker refuses results, and they are kept: %s", why)
        self.refusal = why
        self._tried.discard(number)
        self._refused.pop(number, None)
        self._refused[number] = None  # Behind the others: one that is always refused blocks none of them.
        self._most_tried = 1
        self._try_at = asyncio.get_running_loop().time() + REFUSED_S
