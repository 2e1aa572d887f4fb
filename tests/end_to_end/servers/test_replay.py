"""Replay into a real site's broker, and results from it, while the broker is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import nats
import pytest
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from nats.js.api import RePublish, StreamConfig

from running.promises import promise
from running.servers import free_port
from running.waiting import WITHIN_S, eventually
from towpath.checker.collector import ResultCollector, ResultCollectors
from towpath.checker.identity import Identity, SerialIdentity
from towpath.checker.judging import judge
from towpath.checker.verdict import Leniency
from towpath.contracts.data_plane import (
    IN_STREAM,
    MESSAGE_ID_HEADER,
    MQTT_DELIVERY,
    MQTT_QOS_HEADER,
    subject_of,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import Retention
from towpath.lab.workload.departures import departures
from towpath.lab.workload.replay import Replay, ReplayReport
from towpath.mqtt.broker_address import MQTT_3_1_1, BrokerAddress
from towpath.streams.streams import SiteStreams

TOPIC = "site/departures"
OUT_TOPIC = "departures/clean"
OUT_SUBJECT = "sink.edge.edge.clean.1"
ACK_WAIT_S = 1.0
"""Time after which the broker repeats a message that was not acknowledged."""


class Broker:
    """A nats-server with JetStream and MQTT, which tests can kill and restart."""

    def __init__(self, folder: Path) -> None:
        self.nats_port, self.mqtt_port = free_port(), free_port()
        self._config = folder / "server.conf"
        self._log = folder / "server.log"
        self._config.write_text(
            f"""
            server_name: edge
            listen: "127.0.0.1:{self.nats_port}"
            jetstream {{ store_dir: "{folder / "store"}" }}
            mqtt {{ listen: "127.0.0.1:{self.mqtt_port}", ack_wait: "{ACK_WAIT_S}s" }}
            authorization {{ users: [{{ user: device, password: secret }}] }}
            """
        )
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        binary = Path(sys.executable).parent / "nats-server"
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(binary, "-c", self._config, stderr=log)

    def freeze(self) -> None:
        """Pause the process: messages sent now stay unacknowledged."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    async def kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[NatsClient]:
        url = f"nats://device:secret@127.0.0.1:{self.nats_port}"

        async def connected() -> NatsClient | None:
            try:
                client = await nats.connect(url, allow_reconnect=False, reconnect_time_wait=0.05)
                await client.jetstream().account_info()
            except (NatsError, OSError):
                return None
            return client

        client = await eventually(connected)
        try:
            yield client
        finally:
            await client.close()

    @property
    def address(self) -> BrokerAddress:
        return BrokerAddress("127.0.0.1", self.mqtt_port, MQTT_3_1_1, "device", "secret")

    def replay(self, **changes: Any) -> Replay:
        return Replay(**({"broker": self.address, "topic": TOPIC, "client_id": "replay"} | changes))

    def collector(self, **changes: Any) -> ResultCollector:
        fields: dict[str, Any] = {"broker": self.address, "topics": [OUT_TOPIC], "client_id": "checker"}
        return ResultCollector(**(fields | changes))


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    await broker.start()
    try:
        async with broker.client() as client:
            await SiteStreams(client, "jfk", Retention()).ensure_in()
            public = RePublish(src=OUT_SUBJECT, dest=MQTT_DELIVERY + subject_of(OUT_TOPIC))
            await client.jetstream().add_stream(
                StreamConfig(name="OUT_clean", subjects=[OUT_SUBJECT], republish=public)
            )
        yield broker
    finally:
        await broker.kill()


async def stored(broker: Broker) -> list[int]:
    """Return the ids in the IN stream, in the order in which they were stored."""
    async with broker.client() as client:
        jetstream = client.jetstream()
        total = (await jetstream.stream_info(IN_STREAM)).state.messages
        subscription = await jetstream.subscribe("", stream=IN_STREAM, ordered_consumer=True)
        return [json.loads((await subscription.next_msg(timeout=WITHIN_S)).data)["id"] for _ in range(total)]


def once(condition: Callable[[ReplayReport], bool], reached: asyncio.Event) -> Callable[[ReplayReport], None]:
    """Return a progress callback that sets `reached` when the condition holds."""

    def look(report: ReplayReport) -> None:
        if condition(report):
            reached.set()

    return look


async def test_replay_when_the_broker_lives_then_stores_every_departure_once_and_in_order(
    broker: Broker,
) -> None:
    events = departures("JFK", 3_000)
    report = await broker.replay().run(events)
    assert (report.sent, report.acknowledged, report.redelivered) == (3_000, 3_000, 0)
    assert await stored(broker) == [event.id for event in events]


@promise("exactly once")
async def test_replay_when_the_broker_is_killed_in_the_middle_then_loses_nothing_and_keeps_the_order(
    broker: Broker,
) -> None:
    events = departures("LGA", 20_000)
    begun, many_unacknowledged = asyncio.Event(), asyncio.Event()

    def look(report: ReplayReport) -> None:
        once(lambda now: now.acknowledged >= 1_000, begun)(report)
        once(lambda now: now.sent - now.acknowledged >= 200, many_unacknowledged)(report)

    run = asyncio.create_task(broker.replay(rate=2_000.0).run(events, look))
    async with asyncio.timeout(WITHIN_S):
        await begun.wait()
        broker.freeze()
        many_unacknowledged.clear()  # A slow broker may have let so many wait before.
        await many_unacknowledged.wait()
        await broker.kill()
        await broker.start()
        report = await run
    assert (report.sent, report.acknowledged) == (20_000, 20_000)
    # Acknowledgements that the broker had sent may have come after the last look.
    assert report.redelivered >= 100
    ids = await stored(broker)
    assert list(dict.fromkeys(ids)) == [event.id for event in events]
    assert len(ids) <= 20_000 + report.redelivered


async def test_replay_when_the_broker_stays_away_then_gives_up_and_says_how_far_it_came(
    broker: Broker,
) -> None:
    begun = asyncio.Event()
    run = asyncio.create_task(
        broker.replay(rate=500.0, give_up_after_s=5.0).run(
            departures("JFK"), once(lambda report: report.acknowledged > 0, begun)
        )
    )
    async with asyncio.timeout(WITHIN_S):
        await begun.wait()
        await broker.kill()
        with pytest.raises(TowpathError, match="events are stored") as caught:
            await run
    assert caught.value.detail.code is ErrorCode.DEADLINE


async def test_replay_when_the_password_is_wrong_then_is_refused_at_once(broker: Broker) -> None:
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(TowpathError) as caught:
            await broker.replay(broker=replace(broker.address, password="guess")).run(departures("JFK", 1))
    assert caught.value.detail.code is ErrorCode.NOT_ALLOWED


async def test_replay_when_a_rate_is_set_then_sends_no_faster(broker: Broker) -> None:
    report = await broker.replay(rate=1_000.0).run(departures("JFK", 1_001))
    assert report.seconds >= 1.0


async def test_replay_when_sped_up_then_takes_as_long_as_its_events_span(broker: Broker) -> None:
    events = departures("JFK", 500)
    span = max(event.at for event in events) - events[0].at
    report = await broker.replay(speed=span).run(events)
    assert report.seconds >= 1.0


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"rate": 0.0}, "rate"), ({"rate": 1.0, "speed": 1.0}, "speed"), ({"inflight": 70_000}, "inflight")],
)
def test_replay_when_a_setting_makes_no_sense_then_names_it(changes: dict, field: str) -> None:
    with pytest.raises(TowpathError) as caught:
        Replay(BrokerAddress("127.0.0.1", 1883), TOPIC, "replay", **changes)
    assert caught.value.detail.field == field


def result(serial: int) -> dict[str, Any]:
    return {
        "job": "clean",
        "site": "edge",
        "epoch": 1,
        "serial": serial,
        "input": "edge/site/departures",
        "stored_at": datetime.now(UTC).isoformat(),
        "values": {"id": serial},
    }


async def publish(broker: Broker, serials: range, repeat: bool = False) -> None:
    """Publish results as a job does; with `repeat` under fresh message ids, so that they appear again."""
    async with broker.client() as client:
        for serial in serials:
            qos, at_least_once = MQTT_QOS_HEADER
            headers: dict[str, Any] = {MESSAGE_ID_HEADER: f"{serial}-{repeat}", qos: at_least_once}
            body = json.dumps(result(serial)).encode()
            await client.jetstream().publish(OUT_SUBJECT, body, timeout=WITHIN_S, headers=headers)


def expected(count: int) -> dict[Identity, dict[str, Any]]:
    return {SerialIdentity("clean", "edge/site/departures", n): {"id": n} for n in range(count)}


async def test_collector_when_the_broker_is_killed_then_still_receives_every_result(broker: Broker) -> None:
    async with broker.collector() as collector:

        def complete(count: int) -> bool:
            return {o.identity for o in collector.observations} == expected(count).keys()

        await publish(broker, range(300))
        await collector.wait_until(lambda: complete(300), within_s=WITHIN_S)
        await broker.kill()
        await broker.start()
        await publish(broker, range(300, 600))
        await collector.wait_until(lambda: complete(600), within_s=WITHIN_S)
        assert collector.connections == 2
        verdict = judge(expected(600), collector.observations, Leniency(late_after_s=60.0))
    assert verdict.clean, verdict.examples
    assert (verdict.out_of_order, verdict.late) == (0, 0)


async def test_result_when_really_published_twice_then_is_duplicated_and_not_redelivered(
    broker: Broker,
) -> None:
    async with broker.collector() as collector:
        await publish(broker, range(10))
        await publish(broker, range(3), repeat=True)
        await collector.wait_until(lambda: len(collector.observations) >= 13, within_s=WITHIN_S)
        verdict = judge(expected(10), collector.observations)
    assert (verdict.duplicated, verdict.redelivered, verdict.lost) == (3, 0, 0)


def publish_and_stand_still(broker: Broker) -> None:
    """Publish ten results from another thread and block the caller's event loop.

    The loop stands still long enough that the broker repeats what it had sent to a subscriber there.
    """
    publisher = Thread(target=lambda: asyncio.run(publish(broker, range(10))))
    publisher.start()
    publisher.join()
    time.sleep(2.5 * ACK_WAIT_S)


async def test_results_when_acknowledged_so_late_that_they_come_again_then_are_not_duplicated(
    broker: Broker,
) -> None:
    async with broker.collector() as collector:
        publish_and_stand_still(broker)
        await collector.wait_until(lambda: len(collector.observations) >= 20, within_s=WITHIN_S)
        verdict = judge(expected(10), collector.observations)
    assert verdict.clean, verdict.examples
    assert verdict.redelivered >= 10
    assert collector.connections == 1


async def test_collectors_when_two_run_together_then_their_observations_are_in_order_of_receipt(
    broker: Broker,
) -> None:
    other = broker.collector(client_id="other", topics=["departures/other"])
    async with ResultCollectors(broker.collector(), other) as together:
        await publish(broker, range(20))
        await together.wait_until(lambda: len(together.observations) >= 20, within_s=WITHIN_S)
        received = [o.received_at for o in together.observations]
        assert received == sorted(received)
        assert judge(expected(20), together.observations).clean


async def test_collector_when_it_ends_then_leaves_nothing_for_the_next_one(broker: Broker) -> None:
    async with broker.collector():
        pass
    await publish(broker, range(10))
    async with broker.collector() as collector:
        await publish(broker, range(10, 12))
        await collector.wait_until(lambda: len(collector.observations) >= 2, within_s=WITHIN_S)
        assert [o.body["serial"] for o in collector.observations] == [10, 11]


async def test_collector_when_no_broker_answers_then_says_where_it_looked(broker: Broker) -> None:
    port = free_port()
    with pytest.raises(TowpathError, match=f"127.0.0.1:{port}") as caught:
        async with broker.collector(broker=replace(broker.address, port=port), ready_within_s=1.0):
            pass
    assert caught.value.detail.code is ErrorCode.UNREACHABLE
