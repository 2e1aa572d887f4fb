"""All that the process of an engine is told at its start: a file in the engine's own directory.

Users' code runs in that process and can read what the process can. So the file has the engine's own
credential, and none of the site or of the mesh.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from towpath.atomic_write import write_private_file
from towpath.contracts.job import JobContainer
from towpath.contracts.message import JobName, Model, SiteName
from towpath.contracts.site import EngineSpec, Observation

log = logging.getLogger(__name__)

SETUP_FILE = "setup.json"


class EngineSetup(Model):
    """An engine's place, login and settings."""

    site: SiteName
    nats_url: str
    """Address of the site's server."""
    user: str
    password: str
    """It may change while the engine runs, see `renew_password`."""
    spec: EngineSpec
    observation: Observation = Observation()
    durable: bool = False
    """Checkpoints survive a power cut."""
    temporary: Path | None = None
    """Directory for temporary files of this engine alone. None: the machine's. `TMPDIR` says the same."""
    job: JobName | None = None
    """The one job of the engine. None for all jobs of the site that have no engine of their own."""
    container: JobContainer | None = None
    """Limits of that job's engine."""

    def save(self, directory: Path) -> Path:
        """Write the file into the engine's directory, and return its path."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / SETUP_FILE
        write_private_file(path, self.model_dump_json(indent=1))
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file. Its directory is the engine's scratch space."""
        return cls.from_json(path.read_bytes())


def renew_password(directory: Path, password: str) -> None:
    """Tell all engines with files below a directory their new password.

    Code of jobs can write there: a file that cannot be read has none, and says so in the log.
    """
    for file in directory.rglob(SETUP_FILE):
        try:
            EngineSetup.load(file).model_copy(update={"password": password}).save(file.parent)
        except (ValidationError, OSError) as error:
            log.warning("the engine of %s is not told its new password: %s", file, error)
