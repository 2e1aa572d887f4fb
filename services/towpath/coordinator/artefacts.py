"""The coordinator's side of user code: into the hub's store with a plan, out when nobody needs it."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from importlib.util import find_spec
from pathlib import Path

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
"""For the hub to take an artefact: 64 MiB at most, and on the disk."""

TRIALS = 2
"""Entries that are tried at a time: each costs a second of CPU."""

SWEEP_EVERY_S = 600.0

UNUSED_S = 3600.0
"""How long an artefact stays that no job refers to. A plan stores it before the registry knows of it:
that may take seconds, never so long."""


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
        """`root` is where user code lies; `called`, how people name that directory, if otherwise."""
        self._hub = hub
        self._root = root
        self._called = called
        self._registry = registry
        self._pipelines = pipelines
        self._trials = asyncio.Semaphore(TRIALS)
        self.can_try = find_spec("pyspark") is not None
        """Whether code is tried here: where there is no PySpark, a site must be asked."""
        self._callable: set[tuple[str, str]] = set()
        """Digest and entry of what was tried and can be called."""

    async def stored(self, spec: JobSpec) -> str | None:
        """The digest of the job's code, which the hub now keeps; None for a job that brings none.

        Raises `TowpathError`: the code does not lie in the artefact root or is not what it should be, or
        the hub does not take it.
        """
        code = user_code(spec.operator)
        if code is None or code.artefact is None:
            return None
        digest, _ = await self._kept(code.artefact)
        return digest

    async def tried(self, spec: JobSpec) -> str | None:
        """The same, of code that can be called: tried here, in a process that is thrown away.

        For whoever must know before anything begins; a site tries what it is given in any case, and it alone
        where there is no PySpark beside the coordinator. Raises `TowpathError` also when the code does not
        import, with its own exception, or cannot be called.
        """
        code = user_code(spec.operator)
        if code is None or code.artefact is None:
            return None
        digest, content = await self._kept(code.artefact)
        if self.can_try and (digest, code.entry) not in self._callable:
            await self._try(digest, content, code.entry)
        return digest

    def lies(self, spec: JobSpec) -> bool:
        """Whether there is anything where the job's code is said to lie."""
        code = user_code(spec.operator)
        if code is None or code.artefact is None:
            return False
        try:
            resolve_inside(self._root, code.artefact, self._called)
        except TowpathError as error:
            return error.detail.code is not ErrorCode.INVALID
        return True

    async def check_kept(self, digest: str) -> None:
        """Raise `TowpathError` when the hub does not keep an artefact any more, or does not answer."""
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
        """Digest and content of an artefact that is in the hub's store now."""
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
        """Delete what nobody needs, again and again, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                await self.sweep(UNUSED_S)
            except (nats.errors.Error, TimeoutError) as error:
                log.warning("artefacts are not looked through: %s", error)

    async def sweep(self, unused_s: float) -> list[str]:
        """Delete what no job, operation or version of a pipeline has, if stored `unused_s` seconds ago.

        Operations are read first: one that ends meanwhile has left its artefact with its job.
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
