"""Artefacts at the hub, in a JetStream object store, which the coordinator writes.

A site that knows an artefact's digest may read it, see `hub_gate`. Sites read artefacts message by message
with direct gets. The client's own `get` makes a consumer at the hub, and waits without end when the link
breaks midway.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ObjectMeta, ObjectMetaOptions, ObjectStoreConfig, StorageType
from nats.js.errors import BadRequestError, NoStreamResponseError, ServiceUnavailableError
from nats.js.object_store import ObjectStore

from towpath.artefacts.archive import digest_of
from towpath.contracts.data_plane import NO_RESPONDERS, STORED_AT_HEADER, api_for
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE, now

BUCKET = "artefacts"
STREAM = f"OBJ_{BUCKET}"
SUBJECTS = f"$O.{BUCKET}.>"
"""Subjects under which the coordinator publishes artefacts."""

META, _CHUNK = f"$O.{BUCKET}.M.", f"$O.{BUCKET}.C."
"""Beginnings of the subjects of descriptions, and of parts."""

CHUNK_BYTES = 512 * 1024
REQUEST_S = 5.0
"""Deadline for one message from the hub: on a link of 1 Mbit/s a chunk takes four seconds."""

ELECTION_S = 10.0
"""Time for the servers of a cluster to agree on another leader when one dies. They took a second; a vote that
no one wins costs some more."""

FETCH_S = 60.0
AGAIN_S = 0.2
NOT_THERE = "404"
REFUSED = "403"
"""Status of an answer by the hub's gate, to someone who has not named the artefact's digest."""


class HubArtefacts:
    """The object store, over a connection to the hub itself."""

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=10.0)
        self._writing = asyncio.Lock()
        """Lock for writers: while one holds it, no other has an unfinished artefact."""

    async def ensure(self, replicas: int = 1) -> None:
        """Create the object store if it does not exist, and give it so many replicas."""
        config = ObjectStoreConfig(bucket=BUCKET, storage=StorageType.FILE, replicas=replicas)
        try:
            await self._jetstream.create_object_store(BUCKET, config)
        except BadRequestError:
            # It exists with other settings. An earlier version of the client filled in others: those stay.
            found = (await self._jetstream.stream_info(STREAM)).config
            if found.num_replicas != replicas:
                await self._jetstream.update_stream(replace(found, num_replicas=replicas))

    async def put(self, content: bytes) -> str:
        """Store an artefact and return its digest. One that is already there is only marked as used.

        While no server of the hub's cluster leads the store, or none answers, try again.
        """
        end = asyncio.get_running_loop().time() + ELECTION_S
        while True:
            try:
                return await self._put(content)
            except (NoStreamResponseError, ServiceUnavailableError, TimeoutError):
                if asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(AGAIN_S)

    async def _put(self, content: bytes) -> str:
        digest = digest_of(content)
        async with self._writing:
            store = self._store()
            if await _described(self._connection, digest) is not None:
                await store.update_meta(digest, ObjectMeta(name=digest))
            else:
                options = ObjectMetaOptions(max_chunk_size=CHUNK_BYTES)
                await store.put(digest, content, ObjectMeta(name=digest, options=options))
        return digest

    async def holds(self, digest: str) -> bool:
        """True if an artefact is stored. Raises `TimeoutError` when the hub does not answer."""
        return await _described(self._connection, digest) is not None

    async def discard(self, keep: set[str], unused_s: float) -> list[str]:
        """Delete artefacts that are not in `keep` and were not put within `unused_s` seconds.

        Also delete parts of those whose `put` was interrupted. Returns the digests.
        """
        gone: list[str] = []
        async with self._writing:
            info = await self._jetstream.stream_info(STREAM, subjects_filter=SUBJECTS)
            subjects = list(info.state.subjects or {})
            owned: set[str] = set()
            for digest in (_named(s) for s in subjects if s.startswith(META)):
                described = await _described(self._connection, digest)
                if described is None:
                    continue
                if digest in keep or (now() - described.written_at).total_seconds() < unused_s:
                    owned.add(described.chunks_at)
                else:
                    await self._store().delete(digest)
                    gone.append(digest)
            for subject in subjects:
                if subject.startswith(_CHUNK) and subject not in owned:
                    await self._jetstream.purge_stream(STREAM, subject=subject)
        return gone

    def _store(self) -> ObjectStore:
        return ObjectStore(name=BUCKET, stream=STREAM, js=self._jetstream)


class Description:
    """The store's description of one artefact."""

    def __init__(self, message: Msg) -> None:
        body: dict[str, Any] = json.loads(message.data)
        self.is_deleted = bool(body.get("deleted"))
        self.chunks_at = _CHUNK + str(body["nuid"])
        self.chunks = int(body.get("chunks") or 0)
        self.written_at = datetime.fromisoformat((message.headers or {})[STORED_AT_HEADER])


async def fetch(connection: Client, digest: str, *, within_s: float = FETCH_S) -> bytes:
    """Return an artefact from the hub, complete and with its digest.

    Raises `TowpathError`: unreachable, or failed when the hub has no such artefact.
    """
    try:
        async with asyncio.timeout(within_s):
            content = await _content(connection, digest)
    except TimeoutError as error:
        raise TowpathError(
            ErrorCode.UNREACHABLE,
            "the hub does not answer, and the job's code is not at this site",
            field="artefact",
            value=digest,
        ) from error
    if digest_of(content) != digest:
        raise TowpathError(
            ErrorCode.FAILED,
            "the content at the hub does not match its digest",
            field="artefact",
            value=digest,
        )
    return content


async def _content(connection: Client, digest: str) -> bytes:
    """Return the parts of an artefact, put together. Raises `TowpathError` if the hub has none."""
    parts: list[bytes] = []
    after, missed = 0, False
    while True:
        # Before each part, because a gate gives parts to those who have just named the digest. Another
        # coordinator may lead by now.
        described = await _described(connection, digest)
        if described is None:
            raise TowpathError(
                ErrorCode.FAILED,
                "the hub no longer has this artefact: deploy or update the job again",
                field="artefact",
                value=digest,
            )
        if len(parts) == described.chunks:
            return b"".join(parts)
        message = await _persistently(connection, {"seq": after + 1, "next_by_subj": described.chunks_at})
        if message is not None:
            parts.append(message.data)
            after = int((message.headers or {})["Nats-Sequence"])
        elif missed:
            return b""  # It was deleted meanwhile. The digest will not match.
        else:  # Of the hub's servers, the one that the gate asked may not have had the description yet.
            missed = True
            await asyncio.sleep(AGAIN_S)


async def _described(connection: Client, digest: str) -> Description | None:
    return await described_at(connection, subject_of(digest))


def subject_of(digest: str) -> str:
    """Return the subject of an artefact's description."""
    return META + base64.urlsafe_b64encode(digest.encode()).decode()


async def described_at(connection: Client, subject: str) -> Description | None:
    """Return the description under a subject; None if there is none, or its artefact is deleted.

    Raises `TimeoutError`.
    """
    message = await _persistently(connection, {"last_by_subj": subject})
    described = None if message is None else Description(message)
    return None if described is None or described.is_deleted else described


async def _persistently(connection: Client, wanted: dict[str, Any]) -> Msg | None:
    """Return one stored message, or None if there is none for us. A link that is down gets a second chance.

    Raises `TimeoutError`.
    """
    api, request = api_for(connection.options.get("user"), HUB_SCOPE), json.dumps(wanted).encode()
    for attempt in range(3):
        if attempt:
            await asyncio.sleep(AGAIN_S)
        try:
            message = await connection.request(f"{api}.DIRECT.GET.{STREAM}", request, timeout=REQUEST_S)
        except (nats.errors.Error, TimeoutError):
            continue
        status = (message.headers or {}).get("Status", "")
        if status in (NOT_THERE, REFUSED):
            return None
        if status != NO_RESPONDERS:
            return message
    raise TimeoutError(f"no one answers for {STREAM}")


def _named(subject: str) -> str:
    return base64.urlsafe_b64decode(subject.removeprefix(META)).decode()
