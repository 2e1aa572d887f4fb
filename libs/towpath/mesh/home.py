"""Where a mesh on one machine keeps its things: every path under one directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from towpath.mesh.private_file import make_private_directory


@dataclass(frozen=True)
class Home:
    """The directory of one mesh. Paths are only named here; `create` makes the shared ones."""

    root: Path

    @classmethod
    def default(cls) -> Home:
        """The directory in the environment variable TOWPATH_HOME, else `~/.towpath`."""
        return cls(Path(os.environ.get("TOWPATH_HOME") or Path.home() / ".towpath").expanduser().absolute())

    def create(self) -> Home:
        """Make the directories that all services share, for their owner alone. Returns itself."""
        shared = (self.run, self.logs, self.hub, self.redis, self.artefacts, self.root / "sites", self.faults)
        for directory in (self.root, *shared):
            make_private_directory(directory)
        return self

    def create_site(self, site: str) -> Home:
        """Make the directories of a site. Returns itself."""
        for directory in (self.site(site), self.nats(site), self.jobs(site), self.engine(site), self.faults):
            make_private_directory(directory)
        return self

    @property
    def state(self) -> Path:
        """Ports and credentials of the mesh. In the environment variable TOWPATH_STATE it may lie elsewhere:
        what a container is given as a secret is not among what it keeps."""
        return Path(os.environ.get("TOWPATH_STATE") or self.root / "mesh.json")

    @property
    def state_lock(self) -> Path:
        """Held while the state changes."""
        return self.root / "mesh.lock"

    @property
    def run(self) -> Path:
        """Pid files."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """Logs of all processes."""
        return self.root / "logs"

    def log(self, name: str) -> Path:
        """The log of one process."""
        return self.logs / f"{name}.log"

    @property
    def hub(self) -> Path:
        """The hub's configuration and its streams."""
        return self.root / "hub"

    @property
    def redis(self) -> Path:
        """Redis's configuration and its append-only file."""
        return self.root / "redis"

    @property
    def artefacts(self) -> Path:
        """What users' code must lie in, unless the mesh names another directory."""
        return self.root / "artefacts"

    @property
    def secrets(self) -> Path:
        """What each container of the mesh is given. Only a mesh of containers has this directory."""
        return self.root / "secrets"

    @property
    def own_commands(self) -> Path:
        """How people command a mesh of containers, where that is not `docker compose`: the first line
        starts it, the second one is its compose command."""
        return self.root / "commands.txt"

    @property
    def faults(self) -> Path:
        """The rules that processes of this mesh carry out, and what they report of them."""
        return self.root / "faults"

    def fault_rules(self, scope: str) -> Path:
        """All rules of a scope, `hub` or a site: the file that its processes look at."""
        return self.faults / f"{scope}.json"

    def fault_reports(self, scope: str) -> Path:
        """One file for each process of a scope that carries out rules: how often they acted."""
        return self.faults / "reports" / scope

    def fault_environment(self, scope: str, process: str) -> dict[str, str]:
        """What tells the process of this name, and those it starts, where its rules are."""
        return {
            "TOWPATH_HOOKS": "towpath.lab.extension",
            "TOWPATH_FAULTS": str(self.fault_rules(scope)),
            "TOWPATH_PROCESS": process,
        }

    def scope_of(self, process: str) -> str:
        """The site whose name the process's begins with, or `hub`. Of two sites the longer name counts."""
        sites = (path.name for path in (self.root / "sites").glob("*"))
        fitting = [site for site in sites if process.startswith(f"{site}-")]
        # Here: every command names its home, and few need contracts.
        from towpath.contracts.message import HUB_SCOPE

        return max(fitting, key=len, default=HUB_SCOPE)

    def site(self, site: str) -> Path:
        """Everything of one site."""
        return self.root / "sites" / site

    def nats(self, site: str) -> Path:
        """A site's server configuration and its streams."""
        return self.site(site) / "nats"

    def broker(self, site: str) -> Path:
        """What the broker and the bridge of a site keep, where devices do not use the site's own server."""
        return self.site(site) / "broker"

    def jobs(self, site: str) -> Path:
        """A site's jobs with their checkpoints."""
        return self.site(site) / "jobs"

    def site_artefacts(self, site: str) -> Path:
        """User code that a site fetched from the hub."""
        return self.site(site) / "artefacts"

    def engine(self, site: str) -> Path:
        """Scratch space of a site's engine."""
        return self.site(site) / "engine"
