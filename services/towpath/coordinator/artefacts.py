"""The coordinator's side of user code: store it at the hub with a plan, delete it when no job needs it."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import nats.errors

from towpath.artefacts.archive import pack
from towpath.artefacts.entry_check import check_entry
from towpath.artefacts.hub_store import HubArtefacts
from towpath.artefacts.root import FIELD, as_called, resolve_inside
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.coordinator.registry.jobs import Registry
from towpath.coordinator.registry.pipelines import PipelineStore
from towpath.operators.kind import user_code

log = logging.getLogger(__name__)

STORE_S = 30.0
"""Time for the hub to write an artefact of at most 64 MiB to its disk."""

TRIALS = 2
"""Entry points that are tried at the same time: each costs a second of CPU."""

SWEEP_EVERY_S = 600.0

UNUSED_S = 3600.0
"""Time that an artefact stays without a job that refers to it. A plan stores it seconds before the registry
knows of it."""


class BroughtCode(NamedTuple):
    """User code that a job brings."""

    path: str
    entry: str


def brought_code(spec: JobSpec) -> BroughtCode | None:
    """Return the code that a job brings; None if it runs none, or what the environment has."""
    code = user_code(spec.operator)
    return BroughtCode(code.artefact, code.entry) if code and code.artefact is not None else None


class Artefacts:
    """Packs, stores and finally deletes user code. Never imports it."""

    def __init__(
        self,
        hub: HubArtefacts,
        root: Path,
        registry: Registry,
        pipelines: PipelineStore,
        *,
        called: Path | None = None,
    ) -> None:
        """`root` is the directory of user code, `called` its name for people if that differs."""
        self._hub = hub
        self._root = root
        self._called = called
        self._registry = registry
        self._pipelines = pipelines
        self._trials = asyncio.Semaphore(TRIALS)
        self.can_try = find_spec("pyspark") is not None
        """True if code can be tried here. Without PySpark a site must try it."""
        self._callable: set[tuple[str, str]] = set()
        """Digest and entry point of code that was tried and can be called."""

    async def stored(self, spec: JobSpec) -> str | None:
        """Store the job's code at the hub. Return its digest; None for a job without user code.

        Raises `TowpathError` when the code is not in the artefact root or is not valid, or when the hub does
        not take it.
        """
        brought = brought_code(spec)
        return None if brought is None else (await self._kept(brought.path))[0]

    async def tried(self, spec: JobSpec) -> str | None:
        """Do the same, and try the code here in a process of its own.

        So a plan can refuse bad code before anything begins. A site tries its code in any case; it is the
        only one to do so when the coordinator has no PySpark. Raises `TowpathError` also when the code cannot
        be imported, with the exception of the code, or cannot be called.
        """
        brought = brought_code(spec)
        if brought is None:
            return None
        digest, content = await self._kept(brought.path)
        if self.can_try and (digest, brought.entry) not in self._callable:
            await self._try(digest, content, brought.entry)
        return digest

    def lies(self, spec: JobSpec) -> bool:
        """Tell if there is anything at the path of the job's code."""
        brought = brought_code(spec)
        if brought is None:
            return False
        try:
            resolve_inside(self._root, brought.path, self._called)
        except TowpathError as error:
            return error.detail.code is not ErrorCode.INVALID
        return True

    async def check_kept(self, digest: str) -> None:
        """Raise `TowpathError` when the hub has an artefact no longer, or does not answer."""
        try:
            async with asyncio.timeout(STORE_S):
                is_kept = await self._hub.holds(digest)
        except (nats.errors.Error, TimeoutError) as error:
            raise TowpathError(
                ErrorCode.UNREACHABLE, f"the hub does not say whether it keeps the code: {error}", field=FIELD
            ) from error
        if not is_kept:
            raise TowpathError(
                ErrorCode.INVALID,
                "the code that the job had is not kept any more",
                field=FIELD,
                value=digest,
                allowed="code of the versions that are kept; or apply a description, which brings its own",
            )

    async def _kept(self, named: str) -> tuple[str, bytes]:
        """Store an artefact at the hub. Return its digest and content."""
        content = await asyncio.to_thread(self._packed, named)
        try:
            async with asyncio.timeout(STORE_S):
                return await self._hub.put(content), content
        except (nats.errors.Error, TimeoutError) as error:
            raise TowpathError(
                ErrorCode.UNREACHABLE, f"the hub did not store the code: {error}", field=FIELD
            ) from error

    async def _try(self, digest: str, content: bytes, entry: str) -> None:
        with tempfile.TemporaryDirectory(prefix="towpath-artefact-") as directory:
            archive = Path(directory) / f"{digest}.zip"
            await asyncio.to_thread(archive.write_bytes, content)
            async with self._trials:
                if (digest, entry) in self._callable:
                    return  # Another job has the same code.
                await check_entry(archive, entry)
                self._callable.add((digest, entry))

    def _packed(self, named: str) -> bytes:
        try:
            return pack(resolve_inside(self._root, named, self._called), self._root)
        except TowpathError as error:
            raise as_called(error, self._root, self._called) from error

    async def watch(self) -> None:
        """Delete unneeded artefacts regularly, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                await self.sweep(UNUSED_S)
            except (nats.errors.Error, TimeoutError) as error:
                log.warning("artefacts are not looked through: %s", error)

    async def sweep(self, unused_s: float) -> list[str]:
        """Delete artefacts without job, operation or version of a pipeline, if stored `unused_s` seconds ago.

        Operations are read before jobs: the artefact of an operation that ends meanwhile is its job's then.
        """
        needed: set[str | None] = set()
        for operation in await self._registry.unfinished():
            record, _ = await self._registry.load(operation)
            needed |= {entry.artefact for entry in (record.before, record.after) if entry is not None}
        needed |= {entry.artefact for entry in (await self._registry.jobs()).values()}
        needed |= await self._pipelines.artefacts()
        gone = await self._hub.discard({digest for digest in needed if digest is not None}, unused_s)
        if gone:
            log.info("deleted artefacts %s", ", ".join(gone))
        return gone
