"""The process of an engine: what it is told, what it can open, and how much of the machine it gets.

Code that users bring runs in it. So it knows its own credential and none of the mesh's. As a process it is
confined to its own files, see `towpath.confined`. In a container it has no others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from towpath.agent.containment import Containment
from towpath.agent.engine_client import EngineClient
from towpath.agent.settings import AgentSettings
from towpath.atomic_write import make_private_directory
from towpath.confined import confined
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.engines.binder import JOB_WAITS
from towpath.mesh.home import Home
from towpath.mesh.names import engine_process
from towpath.mesh.service_table import SITE_SERVER
from towpath.processes import ChildSpec, version_of

STOP_S = 6.0

NICENESS = 5
"""On a busy processor an engine gets a third of what a broker or an agent gets. Those need little, and
devices and migrations wait for them."""


def engine_child(
    settings: AgentSettings,
    containment: Containment,
    engine: EngineClient,
    job: JobSpec | None,
    job_waits: bool,
) -> ChildSpec:
    """Return the process of the site's shared engine, or of the engine of `job`. Write what it is told."""
    spec, site = settings.access.spec, settings.site
    name = engine_process(site, job.name if job is not None else None)
    environment = settings.engine_environment(name)
    version = spec.engine.model_dump_json() + spec.observation.model_dump_json() + settings.access.nats_url
    version += "faults" if environment else ""
    files = _Files(settings, job, with_faults=bool(environment))
    command = settings.engine.command(files.setup)
    if files.temporary is not None:
        reads = [*files.reads, *settings.engine.machine_files()]
        command = confined(command, reads=reads, writes=[*files.writes, files.temporary])
        environment = environment | {"TMPDIR": str(files.temporary)}
    child = ChildSpec(
        name=name,
        command=tuple(command),
        log=settings.home.log(name),
        environment=environment | ({JOB_WAITS: "yes"} if job_waits else {}),
        ready=engine.answers,
        ready_s=settings.engine.ready_s(spec.engine),
        stop_s=STOP_S,
        niceness=NICENESS,
        version=version_of(version),
        after=(f"{site}-{SITE_SERVER}",),
    )
    return containment.engine(child, files.writes, files.reads, job.container if job is not None else None)


class _Files:
    """The files of an engine. Those of the mesh exist from now on."""

    def __init__(self, settings: AgentSettings, job: JobSpec | None, *, with_faults: bool) -> None:
        home, site = settings.home, settings.site
        directory, jobs = home.engine(site), home.jobs(site)
        if job is not None:
            directory, jobs = directory / "jobs" / job.name, jobs / job.name
        of_mesh = [home.faults] if with_faults else []
        self.writes = [directory, jobs, *([home.fault_reports(site)] if with_faults else [])]
        self.reads = [home.site_artefacts(site), *of_mesh]
        if job is not None:
            _check_links(directory, jobs, below=home.site(site))
        for each in (*self.writes, *self.reads):
            make_private_directory(each)
        spec = settings.access.spec
        self.reads += map(Path, spec.engine.reads)
        is_confined = spec.engine.confined and not spec.container.is_docker
        self.temporary = _temporary(home, site, job) if is_confined else None
        """Directory for temporary files of a confined engine."""
        self.setup = settings.engine_setup(job, self.temporary).save(directory)


def _check_links(*directories: Path, below: Path) -> None:
    """Refuse directories that are elsewhere. Code of jobs that share an engine can put links in their place,
    and what they point to would be mounted into the container of another job. Raises `TowpathError`."""
    for each in directories:
        if each.resolve() != below.resolve() / each.relative_to(below):
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "there is a link on the way to this directory",
                field="job",
                value=str(each),
                allowed="directories: remove the link",
            )


def temporary_files(home: Home, site: str) -> Path:
    """Return the directory for temporary files of a site's engines.

    It is below the system's and not in the mesh's, which may lie deep. Spark has sockets there, and their
    names of 42 bytes leave 63 for the directory.
    """
    return Path(tempfile.gettempdir(), f"towpath-{_digest(os.fsencode(home.site(site)))}")


def _temporary(home: Home, site: str, job: JobSpec | None) -> Path:
    """Make the directory for temporary files of one engine. Raises `TowpathError` if it is someone else's."""
    of_site = temporary_files(home, site)
    with contextlib.suppress(FileExistsError):
        of_site.mkdir(mode=0o700)
    if of_site.is_symlink() or of_site.stat().st_uid != os.geteuid():
        raise TowpathError(
            ErrorCode.NOT_ALLOWED, "another user has made this directory", field="TMPDIR", value=str(of_site)
        )
    name = "shared" if job is None else _digest(job.name.encode())
    return make_private_directory(of_site / name)


def _digest(name: bytes) -> str:
    return hashlib.blake2b(name, digest_size=4).hexdigest()
