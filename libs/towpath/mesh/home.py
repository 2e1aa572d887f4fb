"""Paths of a mesh on one machine, all under one directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from towpath.atomic_write import make_private_directory


@dataclass(frozen=True)
class Home:
    """Directory of one mesh. The properties only name paths; `create` makes the shared ones."""

    root: Path

    @classmethod
    def default(cls) -> Home:
        """Return the directory in the environment variable TOWPATH_HOME, else `~/.towpath`."""
        return cls(Path(os.environ.get("TOWPATH_HOME") or Path.home() / ".towpath").expanduser().absolute())

    def create(self) -> Home:
        """Make the directories that all services share, for their owner alone. Return itself."""
        shared = (self.run, self.logs, self.hub, self.redis, self.artefacts, self.root / "sites", self.faults)
        for directory in (self.root, *shared):
            make_private_directory(directory)
        return self

    def create_site(self, site: str) -> Home:
        """Make the directories of a site. Return itself."""
        for directory in (self.site(site), self.nats(site), self.jobs(site), self.engine(site), self.faults):
            make_private_directory(directory)
        return self

    @property
    def state(self) -> Path:
        """Ports and credentials of the mesh.

        The environment variable TOWPATH_STATE may name another file: a container is given it as a secret.
        """
        return Path(os.environ.get("TOWPATH_STATE") or self.root / "mesh.json")

    @property
    def state_lock(self) -> Path:
        """Held while the state changes."""
        return self.root / "mesh.lock"

    @property
    def tokens(self) -> Path:
        """Tokens of people and programs for the REST interface, as hashes."""
        return self.root / "tokens.json"

    @property
    def spares(self) -> Path:
        """File with the number of the last machine that was invited to stand by for the coordinator."""
        return self.root / "spares.txt"

    @property
    def certificates(self) -> Path:
        """The mesh's authority, and certificates. Only a mesh that encrypts has this directory."""
        return self.root / "certificates"

    def upgrade(self, site: str) -> Path:
        """Return the file with what is left of the upgrade of a site, while it is under way."""
        return self.root / "upgrades" / f"{site}.json"

    @property
    def run(self) -> Path:
        """Pid files."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """Logs of all processes."""
        return self.root / "logs"

    def log(self, name: str) -> Path:
        """Return the log of one process."""
        return self.logs / f"{name}.log"

    @property
    def hub(self) -> Path:
        """The hub's configuration and its streams."""
        return self.root / "hub"

    def hub_node(self, name: str) -> Path:
        """Return the directory of one server of the hub. That of the first is `hub`."""
        return self.root / name

    @property
    def redis(self) -> Path:
        """Redis's configuration and its append-only file."""
        return self.root / "redis"

    @property
    def artefacts(self) -> Path:
        """Directory of users' code, unless the mesh names another one."""
        return self.root / "artefacts"

    @property
    def secrets(self) -> Path:
        """Secrets of the containers. Only a mesh of containers has this directory."""
        return self.root / "secrets"

    @property
    def own_commands(self) -> Path:
        """File with the commands of a mesh of containers: one that starts it, and its compose command."""
        return self.root / "commands.txt"

    @property
    def faults(self) -> Path:
        """Rules that processes of this mesh carry out, and reports on them."""
        return self.root / "faults"

    def fault_rules(self, scope: str) -> Path:
        """Return the file with all rules of a scope, `hub` or a site. Its processes look at it."""
        return self.faults / f"{scope}.json"

    def fault_reports(self, scope: str) -> Path:
        """Return the directory in which each process of a scope reports how often rules acted."""
        return self.faults / "reports" / scope

    def fault_environment(self, scope: str, process: str) -> dict[str, str]:
        """Return variables that tell the process of this name, and those it starts, where its rules are."""
        return {
            "TOWPATH_HOOKS": "towpath.lab.extension",
            "TOWPATH_FAULTS": str(self.fault_rules(scope)),
            "TOWPATH_PROCESS": process,
        }

    def scope_of(self, process: str) -> str:
        """Return the site with whose name a process's begins, or `hub`. Of two the longer name counts."""
        return self.scopes_of([process])[process]

    def scopes_of(self, processes: Iterable[str]) -> dict[str, str]:
        """Return `scope_of` of each process. The directory is read once: there may be hundreds of sites."""
        # Here: every command names its home, and few need contracts.
        from towpath.contracts.message import HUB_SCOPE

        sites = [path.name for path in (self.root / "sites").glob("*")]
        return {
            process: max((s for s in sites if process.startswith(f"{s}-")), key=len, default=HUB_SCOPE)
            for process in processes
        }

    def site(self, site: str) -> Path:
        """Return the directory of one site."""
        return self.root / "sites" / site

    def nats(self, site: str) -> Path:
        """Return the directory of a site's server configuration and its streams."""
        return self.site(site) / "nats"

    def broker(self, site: str) -> Path:
        """Return the directory of a site's bridge and broker, if devices do not use the site's own server."""
        return self.site(site) / "broker"

    def jobs(self, site: str) -> Path:
        """Return the directory of a site's jobs with their checkpoints."""
        return self.site(site) / "jobs"

    def uplinks(self, site: str) -> Path:
        """Return the directory of what a site's uplinks are to do, and have spent."""
        return self.site(site) / "uplinks"

    def devices(self, site: str) -> Path:
        """Return the file with the users of single devices of a site, passwords as hashes."""
        return self.site(site) / "devices.json"

    def storage(self, site: str) -> Path:
        """Return the directory of the values that a site stores."""
        return self.site(site) / "storage"

    def site_artefacts(self, site: str) -> Path:
        """Return the directory of user code that a site fetched from the hub."""
        return self.site(site) / "artefacts"

    def engine(self, site: str) -> Path:
        """Return the scratch space of a site's engine."""
        return self.site(site) / "engine"
