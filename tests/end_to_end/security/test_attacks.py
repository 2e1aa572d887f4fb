"""Someone with all keys of a site can harm no one but that site, and what was tried is told."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Any

import pytest
from nats.js.api import AckPolicy, ConsumerConfig
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from running.attacks import (
    OVERHEARD,
    REDIS,
    REFUSED_BY_GATE,
    REFUSED_BY_HUB,
    TAPPED,
    THIEF,
    VICTIM,
    Attack,
)
from running.command_line import MESH_TIMEOUT_S
from running.device_events import publish_events
from running.promises import promise
from running.raw_leaf import raw_leaf
from running.waiting import WITHIN_S, eventually
from running.whole_mesh import WholeMesh
from towpath.bus import follow_events
from towpath.cli.connection import open_bus
from towpath.contracts.commands import ListJobs
from towpath.contracts.data_plane import IN_STREAM, WEBHOOK_CONSUMER
from towpath.contracts.events import SecurityRefused
from towpath.contracts.message import now

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

SAMPLE_EVERY = 8
"""Every eighth attack is tried in `make test`."""


def sampled(attacks: Iterable[Any]) -> list[Any]:
    """Return the attacks as parameters of a test. A sample of them is in `make test`."""
    return [
        pytest.param(attack, id=str(attack), marks=[promise("restricted")] if n % SAMPLE_EVERY == 0 else [])
        for n, attack in enumerate(attacks)
    ]


class Told:
    """The refusals that the mesh tells of, as they come."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def of(self, **wanted: str) -> bool:
        return any(all(event[key] == value for key, value in wanted.items()) for event in self.events)


@pytest.fixture
async def told(shared_mesh: WholeMesh) -> AsyncIterator[Told]:
    found, begun = Told(), now()
    async with open_bus(shared_mesh.at) as bus:

        async def follow() -> None:
            # From the start: what comes before the subscription does must not be missed.
            async for _, body in follow_events(bus, from_start=True, subject=SecurityRefused.subject):
                if datetime.fromisoformat(body["at"]) >= begun:
                    found.events.append(body)

        following = asyncio.create_task(follow())
        yield found
        following.cancel()


@pytest.mark.parametrize("attack", sampled(REFUSED_BY_HUB))
async def test_message_when_it_is_none_of_the_sites_then_the_hub_refuses_and_tells(
    shared_mesh: WholeMesh, told: Told, attack: Attack
) -> None:
    subject = attack.subject.replace("$JS.hub.API", "$JS.API")  # The hub's own name for its domain.

    async def refused_and_told() -> bool:
        async with raw_leaf(shared_mesh.state, THIEF) as leaf:
            refusal = await leaf.publish(attack.subject, attack.body)
        assert refusal == f"'Permissions Violation for Publish to \"{subject}\"'"
        await asyncio.sleep(0.1)
        return told.of(by="hub", kind="publish", came_under=subject, who=THIEF)

    await eventually(refused_and_told)


@pytest.mark.parametrize("attack", sampled(REFUSED_BY_GATE))
async def test_request_when_the_site_reads_nothing_there_then_the_gate_refuses_and_tells(
    shared_mesh: WholeMesh, told: Told, attack: Attack
) -> None:
    async def refused_and_told() -> bool:
        inbox = f"_INBOX.{THIEF}.{secrets.token_hex(8)}"
        async with raw_leaf(shared_mesh.state, THIEF) as leaf:
            await leaf.subscribe(inbox)
            await leaf.publish(attack.subject, attack.body, reply=inbox)
            await leaf.listen(0.3)
        answers = [body for subject, body in leaf.heard if subject == inbox]
        assert all(b'"code": 403' in answer for answer in answers), answers
        return bool(answers) and told.of(came_under=attack.subject, who=THIEF)

    await eventually(refused_and_told)


@promise("restricted")
async def test_eavesdropper_when_others_talk_then_hears_nothing(shared_mesh: WholeMesh) -> None:
    async with raw_leaf(shared_mesh.state, THIEF) as leaf, open_bus(shared_mesh.at) as bus:
        for subject in OVERHEARD:
            await leaf.subscribe(subject)
        await bus.request(ListJobs(), deadline_s=WITHIN_S)
        await leaf.listen(2.5)  # Each site sends a heartbeat every second.

    own = (
        f"towpath.v1.command.{THIEF}.",
        f"_INBOX.{THIEF}.",
        f"towpath.mirror.{THIEF}.",  # A job of an earlier test may still read there.
        f"$JS.{THIEF}.API",
        "$JS.FC.",
        "$JSC.R.",
        "$LDS.",
    )
    assert [subject for subject, _ in leaf.heard if not subject.startswith(own)] == []


@pytest.mark.parametrize("subject", sampled(TAPPED))
async def test_subscription_when_to_one_subject_of_others_then_the_hub_refuses_and_tells(
    shared_mesh: WholeMesh, told: Told, subject: str
) -> None:
    async def refused_and_told() -> bool:
        async with raw_leaf(shared_mesh.state, THIEF) as leaf:
            await leaf.subscribe(subject)
        assert leaf.refusal == f"'Permissions Violation for Subscription to \"{subject}\"'"
        await asyncio.sleep(0.1)
        return told.of(by="hub", kind="subscription", came_under=subject, who=THIEF)

    await eventually(refused_and_told)


@promise("restricted")
async def test_acknowledgement_when_it_is_for_another_site_then_does_not_come_there(
    shared_mesh: WholeMesh,
) -> None:
    await publish_events(shared_mesh.state.site(VICTIM), "site/awaited", [{"number": 1}])
    async with open_bus(shared_mesh.at) as bus, raw_leaf(shared_mesh.state, THIEF) as leaf:
        jetstream = bus.connection.jetstream(domain=VICTIM)
        place = ConsumerConfig(name=WEBHOOK_CONSUMER, ack_policy=AckPolicy.EXPLICIT)
        await jetstream.add_consumer(IN_STREAM, place)
        reading = await jetstream.pull_subscribe_bind(consumer=WEBHOOK_CONSUMER, stream=IN_STREAM)
        [message] = await reading.fetch(1, timeout=WITHIN_S)

        await leaf.publish(message.reply, b"+ACK")

        # The hub has taken the forgery before this question, and both would go the same way.
        found = await jetstream.consumer_info(IN_STREAM, WEBHOOK_CONSUMER)
        await jetstream.delete_consumer(IN_STREAM, WEBHOOK_CONSUMER)
    assert found.num_ack_pending == 1


@pytest.fixture
async def redis(shared_mesh: WholeMesh) -> AsyncIterator[Redis]:
    access, state = shared_mesh.state.site(THIEF), shared_mesh.state
    login = {"username": access.redis.user, "password": access.redis.password}
    client = Redis(host="127.0.0.1", port=state.spec.redis_port, **login)
    yield client
    await client.aclose()


@pytest.mark.parametrize("command", sampled(REDIS))
async def test_command_to_redis_when_it_is_for_no_transfer_then_is_refused(
    redis: Redis, command: str
) -> None:
    with pytest.raises(ResponseError, match=r"no permissions"):
        await redis.execute_command(*command.split())


@promise("restricted")
async def test_command_to_redis_when_refused_then_is_told(
    shared_mesh: WholeMesh, told: Told, redis: Redis
) -> None:
    with pytest.raises(ResponseError):
        await redis.execute_command("FLUSHALL")
    user = shared_mesh.state.site(THIEF).redis.user
    await eventually(lambda: told.of(by="redis", who=user, came_under="flushall"))


@promise("restricted")
async def test_state_when_it_belongs_to_no_operation_then_is_deleted_and_told(
    told: Told, redis: Redis
) -> None:
    key = f"towpath:transfer:none:{secrets.token_hex(8)}"
    await redis.xadd(key, {"data": b"x" * 1_000_000})

    async def gone() -> bool:
        return await redis.xlen(key) == 0

    await eventually(gone)
    await eventually(lambda: told.of(by="redis", kind="redis store", came_under=key))


@promise("restricted")
async def test_login_when_its_password_is_wrong_then_is_refused_and_told(
    shared_mesh: WholeMesh, told: Told
) -> None:
    async def refused_and_told() -> bool:
        greeting = {"user": f"{VICTIM}.leaf", "pass": secrets.token_hex(8), "name": "guess"}
        reader, writer = await asyncio.open_connection("127.0.0.1", shared_mesh.state.leaf_port)
        writer.write(f"CONNECT {json.dumps(greeting)}\r\nPING\r\n".encode())
        assert b"Authorization Violation" in await reader.read()
        writer.close()
        await asyncio.sleep(0.2)
        return told.of(by="hub", kind="login")

    await eventually(refused_and_told)
