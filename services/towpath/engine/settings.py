"""Settings of the engine's process, from its file. See `towpath.engines.setup`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from towpath.atomic_write import write_private_file
from towpath.bus.connecting import Login, Password, remembered
from towpath.contracts.site import EngineSpec, Observation
from towpath.engines.setup import EngineSetup
from towpath.engines.spark.binder import heap_mb
from towpath.streams.log_reader import Access


@dataclass(frozen=True)
class EngineSettings:
    """Settings of one engine."""

    site: str
    spec: EngineSpec
    nats_url: str
    user: str
    password: Password
    directory: Path
    """The engine's own directory: scratch space, log configuration, the workers' credentials."""
    temporary: Path | None = None
    """Directory for its temporary files. None: the machine's."""
    observation: Observation = field(default_factory=Observation)
    durable: bool = False
    """Checkpoints survive a power cut."""
    job: str | None = None
    """The one job of the engine. None for all jobs of the site that have no engine of their own."""

    @classmethod
    def of(cls, file: Path) -> EngineSettings:
        """Return the settings in a file. The engine of a job in a container has a heap that fits into it."""
        setup = EngineSetup.load(file)
        heap = heap_mb(setup.container, setup.spec) if setup.container is not None else None
        return cls(
            site=setup.site,
            spec=setup.spec if heap is None else setup.spec.model_copy(update={"memory": f"{heap}m"}),
            nats_url=setup.nats_url,
            user=setup.user,
            password=remembered(setup.password, lambda: EngineSetup.load(file).password),
            directory=file.parent,
            temporary=setup.temporary,
            observation=setup.observation,
            durable=setup.durable,
            job=setup.job,
        )

    @property
    def cores(self) -> int:
        """Number of tasks at a time."""
        return self.spec.cores or os.cpu_count() or 2

    @property
    def login(self) -> Login:
        """Address and credentials of the broker for the engine itself."""
        return Login(self.nats_url, self.user, self._present_password)

    def access(self) -> Access:
        """Return the broker's access for Spark's Python processes. Writes their credentials file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._present_password()
        return Access(self.nats_url, str(self._credentials_file))

    def _present_password(self) -> str:
        """Return the password, and tell it to Spark's Python processes: a server that has new keys ends the
        connections of all of them."""
        password = self.password if isinstance(self.password, str) else self.password()
        write_private_file(self._credentials_file, json.dumps({"user": self.user, "password": password}))
        return password

    @property
    def _credentials_file(self) -> Path:
        return self.directory / "credentials.json"
