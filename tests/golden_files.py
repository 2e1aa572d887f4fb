"""Keep what this version writes, for the tests of later ones: `make golden`, once with each release.

It starts a mesh of two sites, lets events flow, moves a job, and keeps in `tests/golden/<version>/`, in place
of what was there before:

contracts.tar.xz   the golden message of each contract, and the JSON schemas
commit             the commit whose program wrote them
stores.tar.xz      the mesh's directory without servers, logs and state: the saved mesh, tokens and device
                   users, assignments, checkpoints' offsets, uplinks, pid files; a copy of the registry;
                   a gateway's log and journal

`contract/test_last_version.py` reads them, and `mesh/test_site_of_last_version.py` runs that program.
"""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from running.command_line import STEP_S
from running.flow import WINDOW, flowing, job, move
from running.places import GOLDEN, ROOT
from running.waiting import eventually
from running.whole_mesh import WholeMesh, whole_mesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, OperationState, StrategyName
from towpath.contracts.errors import TowpathError
from towpath.contracts.gateway import Request
from towpath.contracts.job import JobSpec
from towpath.gateways.control import Address
from towpath.gateways.request_journal import RequestJournal
from towpath.gateways.result_log import ResultLog
from towpath.streams.pages import last_serial

KEPT = ("mesh.json", "tokens.json", "sites/*/devices.json", "sites/*/uplinks/**/*", "sites/*/jobs/**/*")
"""Files of a mesh's directory, without `LEFT_OUT`."""

LEFT_OUT = ("state", "incoming", "outgoing", ".forgotten", ".aside")
"""Folders of jobs whose files are Spark's alone, or on their way."""

LARGEST_FILE = 50_000

WITHIN_S = 400.0
"""For engines to start and to work, on a busy machine."""

UPLINK = """
uplinks:
  - {name: counted, site: jfk, topic: site/golden, to: cloud, order: live-first, bytes_per_month: 1000000}
"""

PIPELINE = """
name: copies
jobs:
  - {name: copied, site: jfk, inputs: [{site: jfk, topic: site/golden}], output: {topic: golden/copied},
     operator: {kind: forward}}
"""


def main(into: Path) -> None:
    """Write both archives into a directory."""
    into.mkdir(parents=True, exist_ok=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    (into / "commit").write_text(head.stdout)
    with tarfile.open(into / "contracts.tar.xz", "w:xz") as archive:
        for path in sorted((ROOT / "contracts").rglob("*.json")):
            if path.parent.name in ("schemas", "examples"):
                _add(archive, f"{path.parent.name}/{path.name}", path.read_bytes())
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        directory = Path(scratch)
        _gateway(directory / "gateway")
        with whole_mesh(directory) as mesh:
            asyncio.run(_used(mesh, directory))
        with tarfile.open(into / "stores.tar.xz", "w:xz") as archive:
            for path in sorted(_files(directory)):
                text = path.read_bytes().replace(os.fsencode(directory), b"/mesh")
                _add(archive, path.relative_to(directory).as_posix(), text)


async def _used(mesh: WholeMesh, directory: Path) -> None:
    """Let the mesh write one of each thing that it keeps."""
    for name, text in (("uplinks.yaml", UPLINK), ("pipeline.yaml", PIPELINE)):
        (directory / name).write_text(text)
    async with open_bus(mesh.at) as bus:
        standby = {"site": "cloud", "every_s": 1}
        counted = job("counted", "site/golden", "golden/counted", WINDOW, standby=standby)
        for spec in (counted, job("moved", "site/golden", "golden/moved")):
            await _deployed(bus, JobSpec.model_validate(spec))
        await asyncio.to_thread(mesh.succeed, "pipeline", "apply", str(directory / "pipeline.yaml"))

        async def publishes() -> bool:
            ends = [await last_serial(bus.connection, "jfk", f"OUT_{name}") for name in ("counted", "copied")]
            return all(ends)

        async with flowing(mesh.state, "site/golden"):
            await eventually(publishes, WITHIN_S)
        await move(bus, "moved", "cloud", StrategyName.GENERAL)
        await eventually(lambda: _has_copy(mesh), WITHIN_S)
        await asyncio.to_thread(_used_by_people, mesh, directory)


async def _deployed(bus: Bus, spec: JobSpec) -> None:
    """Deploy a job. Repeat it, as users do, if the engine did not start in time on a busy machine."""
    while True:
        try:
            await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)
            return
        except TowpathError as error:
            if OperationState.ROLLED_BACK not in error.detail.message:
                raise


def _used_by_people(mesh: WholeMesh, directory: Path) -> None:
    mesh.succeed("uplink", "apply", str(directory / "uplinks.yaml"))
    mesh.succeed("broadcast", "lamps/all", "off")
    mesh.succeed("token", "add", "ada", "--role", "operate")
    mesh.succeed("device", "add", "press", "--site", "jfk", "--publish", "site/press")
    mesh.succeed("registry", "backup", str(directory / "registry.json"))
    (directory / "run").mkdir()
    for path in (mesh.home / "run").glob("*.json"):
        (directory / "run" / path.name).write_bytes(path.read_bytes())


async def _has_copy(mesh: WholeMesh) -> bool:
    return (mesh.at.jobs("cloud") / "counted" / "standby.json").exists()


def _gateway(directory: Path) -> None:
    """Write results and requests as a gateway does."""
    log = ResultLog(directory / "results", budget_bytes=100_000)
    log.append([b'{"n": 1}', b'{"n": 2}', b'{"n": 3}'])
    log.sync()
    log.delivered(1)
    log.close()
    journal = RequestJournal(directory / "requests")
    address = Address("acme", "press", "DEPLOY-V2", "EXEC", "packages/install")
    journal.begin(address, Request("r1", "ada", {"name": "counter"}))


def _files(directory: Path) -> Iterator[Path]:
    yield from (directory / "run").glob("*.json")
    yield directory / "registry.json"
    yield from (path for path in (directory / "gateway").rglob("*") if path.is_file())
    home = directory / "home"
    for pattern in KEPT:
        for path in home.glob(pattern):
            parts = path.relative_to(home).parts
            small = path.is_file() and path.stat().st_size <= LARGEST_FILE and path.suffix != ".crc"
            if small and not set(parts) & set(LEFT_OUT):
                yield path


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    shutil.rmtree(GOLDEN, ignore_errors=True)
    main(GOLDEN / version("towpath"))
