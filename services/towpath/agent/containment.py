"""Run the parts of a site as processes, or in containers of a Docker daemon, as its description says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from towpath.containers import images
from towpath.containers.daemon import check
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ContainerLimits, JobContainer
from towpath.contracts.site import ContainerSpec
from towpath.mesh.home import Home
from towpath.processes import ChildSpec, Container
from towpath.tasks import end

log = logging.getLogger(__name__)

FETCH_ANSWER_S = 5.0
"""Time to wait for an image that is being fetched. After it the caller is told to ask again.

It is well within the deadline of the caller's step, which begins again with every such answer."""


class Containment:
    """Wraps the children of one site's agent, and makes images available before they are needed."""

    def __init__(self, spec: ContainerSpec, home: Home, site: str) -> None:
        self._spec = spec
        self._home = home
        self._site = site
        self._fetches: dict[str, asyncio.Task[None]] = {}

    def server(self, child: ChildSpec) -> ChildSpec:
        """Wrap the site's server. It sees its own directory and the logs, but no other secrets."""
        return self._wrapped(child, self._spec.server, [self._home.nats(self._site), self._home.logs])

    def brokers(self, children: Iterable[ChildSpec]) -> list[ChildSpec]:
        """Wrap brokers beside the server. They see as little."""
        mounts = [self._home.broker(self._site), self._home.logs]
        return [self._wrapped(child, self._spec.server, mounts) for child in children]

    def engine(
        self,
        child: ChildSpec,
        writes: Sequence[Path],
        reads: Sequence[Path],
        wanted: JobContainer | None = None,
    ) -> ChildSpec:
        """Wrap the shared engine, or the engine of a job that wants its own, with the files that it sees."""
        image = wanted.image if wanted else None
        limits = self._spec.engine if wanted is None else wanted
        wrapped = self._wrapped(child, limits, [*writes, child.log], image)
        if wrapped.container is None:
            return wrapped
        # Spark's Python processes leave children behind.
        contained = replace(wrapped.container, read_only=tuple(reads), starts_others=True)
        return replace(wrapped, container=contained)

    def _wrapped(
        self, child: ChildSpec, limits: ContainerLimits, mounts: list[Path], image: str | None = None
    ) -> ChildSpec:
        if not self._spec.is_docker:
            return child
        container = Container(
            home=self._home.root,
            image=image or self._spec.image,
            mounts=tuple(mounts),
            image_archive=self._archive_of(image),
            docker_host=self._spec.docker_host,
            limits=ContainerLimits(cpus=limits.cpus, memory_mb=limits.memory_mb),
        )
        return replace(child, container=container)

    def _archive_of(self, image: str | None) -> str | None:
        return self._spec.image_archive if image in (None, self._spec.image) else None

    async def ensure_image(self, wanted: JobContainer | None = None) -> None:
        """Make sure that an engine for a job can be started here.

        Raises `TowpathError`: the image is missing and cannot be fetched, no daemon answers, (busy) it is
        being fetched, or (not allowed) the job names an image and this site runs no containers.
        """
        named = wanted.image if wanted else None
        if not self._spec.is_docker:
            if named is not None:
                raise TowpathError(
                    ErrorCode.NOT_ALLOWED,
                    f"{self._site} runs no containers, and the job needs an image",
                    field="container.image",
                    value=named,
                    allowed='null, or a site whose container.runtime is "docker"',
                )
            return
        allowed = self._spec.images
        if named is not None and allowed is not None and named not in allowed:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{self._site} runs no such image",
                field="container.image",
                value=named,
                allowed=allowed,
            )
        image = named or self._spec.image
        fetch = self._fetches.get(image)
        if fetch is None:
            fetch = self._fetches[image] = asyncio.create_task(
                self._fetch(image, named), name=f"fetch {image}"
            )
        await asyncio.wait({fetch}, timeout=FETCH_ANSWER_S)
        if not fetch.done():
            raise TowpathError(
                ErrorCode.BUSY,
                f"{self._site} is fetching the image; try again later",
                field="container.image",
                value=image,
            )
        fetch.result()

    async def _fetch(self, image: str, named: str | None) -> None:
        try:
            await asyncio.to_thread(images.ensure, image, self._archive_of(named), self._spec.docker_host)
        finally:
            # The task is not kept, so that the next caller looks again: images can also be removed.
            self._fetches.pop(image, None)

    async def trouble(self) -> str | None:
        """Return one line that tells why no part of the site could be restarted now. None if one could."""
        if not self._spec.is_docker:
            return None
        try:
            await asyncio.to_thread(check, self._spec.docker_host)
        except TowpathError as error:
            return error.detail.one_line()
        return None

    async def close(self) -> None:
        """Cancel all fetching."""
        await end(self._fetches.values())
