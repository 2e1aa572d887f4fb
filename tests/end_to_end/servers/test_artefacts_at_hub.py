"""Artefacts between a real hub and real sites: stored once, read through the leaf, deleted when unneeded."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator

import nats.errors
import pytest
from nats.aio.client import Client

from running.mesh import Mesh
from running.waiting import WITHIN_S, eventually
from towpath.artefacts import hub_store
from towpath.artefacts.archive import digest_of
from towpath.artefacts.hub_gate import ArtefactGate
from towpath.artefacts.hub_store import (
    CHUNK_BYTES,
    STREAM,
    SUBJECTS,
    Description,
    HubArtefacts,
    described_at,
    fetch,
    subject_of,
)
from towpath.contracts.data_plane import gate_prefix
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.streams.gate import Gate


@pytest.fixture(autouse=True)
async def gate(mesh: Mesh) -> AsyncIterator[Gate]:
    """Open the hub's gate for artefacts, as the coordinator does."""
    async with mesh.gate(HUB_SCOPE) as opened:
        yield opened


async def chunks_kept(client: Client) -> int:
    info = await client.jetstream().stream_info(STREAM, subjects_filter=SUBJECTS)
    subjects: dict[str, int] = info.state.subjects or {}  # type: ignore[assignment]
    return sum(count for subject, count in subjects.items() if ".C." in subject)


async def test_artefact_when_a_site_asks_for_it_then_it_arrives_whole_in_chunks(mesh: Mesh) -> None:
    content = os.urandom(2 * CHUNK_BYTES + 4711)
    async with mesh.coordinator() as coordinator, mesh.agent("jfk") as agent:
        artefacts = HubArtefacts(coordinator)
        await artefacts.ensure()
        await artefacts.ensure()
        before = await chunks_kept(coordinator)
        digest = await artefacts.put(content)
        assert digest == digest_of(content)
        assert await fetch(agent, digest) == content
        assert await chunks_kept(coordinator) == before + 3
        assert await artefacts.put(content) == digest
        assert await chunks_kept(coordinator) == before + 3


async def test_artefact_when_a_site_does_not_know_its_digest_then_gets_no_part_of_it(mesh: Mesh) -> None:
    async with mesh.coordinator() as coordinator, mesh.agent("jfk") as jfk, mesh.agent("lga") as lga:
        artefacts = HubArtefacts(coordinator)
        await artefacts.ensure()
        digest = await artefacts.put(b"code of jfk")
        described = await described_at(coordinator, subject_of(digest))
        assert described is not None

        async def part(agent: Client, site: str) -> bytes:
            wanted = json.dumps({"seq": 1, "next_by_subj": described.chunks_at}).encode()
            subject = f"{gate_prefix(HUB_SCOPE, site)}.DIRECT.GET.{STREAM}"
            return (await agent.request(subject, wanted, timeout=WITHIN_S)).data

        assert b"refused" in await part(jfk, "jfk")
        assert await fetch(jfk, digest) == b"code of jfk"
        assert await part(jfk, "jfk") == b"code of jfk"
        assert b"refused" in await part(lga, "lga")


async def test_artefact_when_another_coordinator_leads_midway_then_arrives_whole(
    mesh: Mesh, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = hub_store._described
    content = os.urandom(CHUNK_BYTES + 4711)

    async def then_another_leads(connection: Client, digest: str) -> Description | None:
        found = await described(connection, digest)
        if len(leaders) < 3:  # Also between a description and its part.
            leaders.append(ArtefactGate(gate._bus.connection))
            gate._own_checks[STREAM] = leaders[-1].obstacle
        return found

    leaders: list[ArtefactGate] = [ArtefactGate(gate._bus.connection)] * 2
    async with mesh.coordinator() as coordinator, mesh.agent("jfk") as agent:
        artefacts = HubArtefacts(coordinator)
        await artefacts.ensure()
        digest = await artefacts.put(content)
        monkeypatch.setattr(hub_store, "_described", then_another_leads)
        assert digest_of(await fetch(agent, digest)) == digest
    assert len(leaders) == 3


async def test_artefact_when_no_one_needs_it_then_it_is_deleted_once_it_is_old_enough(mesh: Mesh) -> None:
    async with mesh.coordinator() as coordinator, mesh.agent("jfk") as agent:
        artefacts = HubArtefacts(coordinator)
        await artefacts.ensure()
        needed, unneeded = await artefacts.put(b"needed"), await artefacts.put(b"unneeded")
        assert await artefacts.discard({needed}, unused_s=3600) == []

        assert unneeded in await artefacts.discard({needed}, unused_s=0)

        assert await fetch(agent, needed) == b"needed"
        with pytest.raises(TowpathError, match="no longer has this artefact"):
            await fetch(agent, unneeded)
        assert await artefacts.put(b"unneeded") == unneeded
        assert await fetch(agent, unneeded) == b"unneeded"


async def test_chunks_when_their_writer_was_killed_before_the_end_then_they_are_deleted(mesh: Mesh) -> None:
    async with mesh.coordinator() as coordinator:
        artefacts = HubArtefacts(coordinator)
        await artefacts.ensure()
        digest = await artefacts.put(b"whole")
        before = await chunks_kept(coordinator)
        await coordinator.jetstream().publish(SUBJECTS.replace(">", "C.interrupted"), b"half of something")
        await artefacts.discard({digest}, unused_s=3600)
        assert await chunks_kept(coordinator) == before


async def test_artefact_when_a_site_tries_to_write_one_then_it_is_refused(mesh: Mesh) -> None:
    async with mesh.coordinator() as coordinator, mesh.agent("jfk") as agent:
        await HubArtefacts(coordinator).ensure()
        with pytest.raises(nats.errors.Error):
            await agent.jetstream(timeout=1, domain="hub").publish(SUBJECTS.replace(">", "C.forged"), b"x")


async def test_artefact_when_the_hub_is_away_then_that_is_said_and_when_it_is_back_it_arrives(
    own_servers: Mesh,
) -> None:
    async with own_servers.coordinator() as coordinator:
        artefacts = HubArtefacts(coordinator)
        await artefacts.ensure()
        digest = await artefacts.put(b"kept on disk")
    async with own_servers.gate(HUB_SCOPE), own_servers.agent("jfk") as agent:
        await own_servers.kill("hub")
        with pytest.raises(TowpathError) as refused:
            await fetch(agent, digest, within_s=10)
        assert refused.value.detail.code is ErrorCode.UNREACHABLE
        await own_servers.start("hub")

        async def arrives() -> bool:
            try:
                return await fetch(agent, digest) == b"kept on disk"
            except TowpathError:
                return False

        await eventually(arrives)
