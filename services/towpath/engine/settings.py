"""Settings of the engine's process, from the mesh's state on disk."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from towpath.bus.connecting import Login
from towpath.contracts.site import Durability, EngineSpec, Observation
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.streams.log_reader import Access


@dataclass(frozen=True)
class EngineSettings:
    """Settings of one engine."""

    site: str
    spec: EngineSpec
    nats_url: str
    user: str
    password: str
    directory: Path
    """The engine's own directory: scratch space, log configuration, the workers' credentials."""
    observation: Observation = field(default_factory=Observation)
    durable: bool = False
    """Checkpoints survive a power cut."""
    job: str | None = None
    """The one job of the engine. None for all jobs of the site that have no engine of their own."""

    @classmethod
    def of(cls, home: Path, site: str, job: str | None = None, memory: str | None = None) -> EngineSettings:
        """Return the settings of a site of the mesh at `home`. `memory` is a heap other than the site's."""
        access = MeshState.load(Home(home)).site(site)
        login = access.login("engine")
        spec, directory = access.spec.engine, Home(home).engine(site)
        return cls(
            site=site,
            spec=spec if memory is None else spec.model_copy(update={"memory": memory}),
            nats_url=access.nats_url,
            user=login.user,
            password=login.password,
            directory=directory if job is None else directory / "jobs" / job,
            observation=access.spec.observation,
            durable=access.spec.durability is Durability.POWER_SAFE,
            job=job,
        )

    @property
    def cores(self) -> int:
        """Number of tasks at a time."""
        return self.spec.cores or os.cpu_count() or 2

    @property
    def login(self) -> Login:
        """Address and credentials of the broker for the engine itself."""
        return Login(self.nats_url, self.user, self.password)

    def access(self) -> Access:
        """Return the broker's access for Spark's Python processes. Writes their credentials file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "credentials.json"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"user": self.user, "password": self.password}, file)
        return Access(self.nats_url, str(path))
