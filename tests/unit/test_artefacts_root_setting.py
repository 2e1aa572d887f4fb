"""The directory that user code may come from, and the artefacts that the coordinator keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from towpath.artefacts.archive import digest_of, pack
from towpath.cli.artefact_roots import chosen_artefact_root, container_artefact_root
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec
from towpath.coordinator.artefacts import Artefacts
from towpath.coordinator.settings import CoordinatorSettings
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.settings import load_spec, spec_of_sites


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_root_when_a_mesh_is_new_then_it_is_where_somebody_works(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert chosen_artefact_root(home, None, None) == str(tmp_path)


@pytest.mark.parametrize("directory", [".", "..", "/"])
def test_root_when_somebody_works_in_a_directory_that_holds_their_home_then_it_is_not_that(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    user = tmp_path / "users" / "ann"
    user.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.chdir(user / directory)
    assert chosen_artefact_root(home, None, None) is None
    assert container_artefact_root(home, None) is None


def test_root_when_none_is_named_then_it_is_in_the_meshs_own_directory(home: Home) -> None:
    provision(home, spec_of_sites("jfk"))
    assert CoordinatorSettings.from_home(home.root).artefact_root == home.artefacts
    assert home.artefacts.is_dir()


def test_root_when_a_mesh_has_one_then_it_keeps_it_until_another_is_named(home: Home, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory, given in ((first, first), (first, None), (second, second)):
        root = None if given is None else str(given)
        provision(home, spec_of_sites("jfk").model_copy(update={"artefact_root": root}))
        assert CoordinatorSettings.from_home(home.root).artefact_root == directory


def test_root_when_a_file_names_it_then_it_is_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "towpath.toml"
    path.write_text('artefact_root = "../jobs"\n[[sites]]\nname = "jfk"\n')
    assert load_spec(path).artefact_root == str(tmp_path.parent / "jobs")


def test_root_when_the_directory_does_not_exist_then_that_is_refused(home: Home, tmp_path: Path) -> None:
    with pytest.raises(TowpathError, match="no such directory"):
        chosen_artefact_root(home, None, tmp_path / "nowhere")
    with pytest.raises(TowpathError, match="no such directory"):
        container_artefact_root(home, tmp_path / "nowhere")


def test_root_of_containers_when_they_have_none_yet_then_it_is_where_somebody_works_and_stays_that(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    provision(home, spec_of_sites("jfk"))
    assert container_artefact_root(home, None) == str(tmp_path)
    spec = spec_of_sites("jfk").model_copy(update={"artefact_root": str(tmp_path)})
    provision(home, spec)
    monkeypatch.chdir("/")
    assert container_artefact_root(home, None) == str(tmp_path)


def test_root_when_the_coordinator_is_a_container_then_it_is_where_compose_put_it(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of_sites("jfk").model_copy(update={"artefact_root": "/srv/code"})
    provision(home, spec)
    monkeypatch.setenv("TOWPATH_ARTEFACTS", str(tmp_path))
    found = CoordinatorSettings.from_home(home.root)
    assert (found.artefact_root, found.artefact_mount) == (Path("/srv/code"), tmp_path)


class Hub:
    """Stands in for the hub's store."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    async def put(self, content: bytes) -> str:
        self.contents[digest_of(content)] = content
        return digest_of(content)

    async def holds(self, digest: str) -> bool:
        return digest in self.contents

    async def discard(self, keep: set[str], unused_s: float) -> list[str]:
        gone = [digest for digest in self.contents if digest not in keep]
        for digest in gone:
            del self.contents[digest]
        return gone


class _Entry:
    def __init__(self, artefact: str | None) -> None:
        self.artefact = artefact


class _Record:
    def __init__(self, before: str | None, after: str | None) -> None:
        self.before = _Entry(before) if before else None
        self.after = _Entry(after) if after else None


class Registry:
    """Stands in for the registry: jobs and operations under way, by their artefacts."""

    def __init__(self, jobs: dict[str, str | None], operations: list[tuple[str | None, str | None]]) -> None:
        self._jobs, self._operations = jobs, operations

    async def jobs(self) -> dict[str, Any]:
        return {name: _Entry(artefact) for name, artefact in self._jobs.items()}

    async def unfinished(self) -> list[str]:
        return [str(n) for n in range(len(self._operations))]

    async def load(self, operation: str) -> tuple[Any, list[Any]]:
        return _Record(*self._operations[int(operation)]), []


class Pipelines:
    """Stands in for the pipelines: code of the versions that are kept."""

    def __init__(self, *digests: str) -> None:
        self._digests = {*digests}

    async def artefacts(self) -> set[str]:
        return self._digests


def artefacts(root: Path, hub: Hub, registry: Registry, pipelines: Pipelines | None = None) -> Artefacts:
    return Artefacts(hub, root, registry, pipelines or Pipelines())  # type: ignore[arg-type]


def spec(**operator: Any) -> JobSpec:
    python = {"kind": "python", "entry": "job:run", **operator}
    return JobSpec.model_validate({**EXAMPLE_SPEC, "operator": python})


async def test_sweep_when_jobs_operations_and_versions_have_artefacts_then_only_the_others_go(
    tmp_path: Path,
) -> None:
    hub = Hub()
    names = ("job", "before", "after", "version", "unused")
    digests = {n: await hub.put(n.encode()) for n in names}
    registry = Registry(
        {"a": digests["job"], "b": None}, [(digests["before"], digests["after"]), (None, None)]
    )
    kept = artefacts(tmp_path, hub, registry, Pipelines(digests["version"]))
    assert await kept.sweep(unused_s=0) == [digests["unused"]]
    assert set(hub.contents) == {digests[n] for n in names if n != "unused"}
    await kept.check_kept(digests["version"])
    with pytest.raises(TowpathError, match="not kept any more"):
        await kept.check_kept(digests["unused"])


async def test_job_when_its_code_is_stored_then_the_digest_is_that_of_what_lies_there_now(
    tmp_path: Path,
) -> None:
    hub = Hub()
    kept = artefacts(tmp_path, hub, Registry({}, []))
    (tmp_path / "code").mkdir()
    digests = []
    for version in (1, 2):
        (tmp_path / "code" / "job.py").write_text(f"VERSION = {version}\ndef run(events, p): ...\n")
        digests.append(await kept.stored(spec(artefact="code")))
        assert hub.contents[str(digests[-1])] == pack(tmp_path / "code", tmp_path)
    assert len(set(digests)) == 2
    assert await kept.stored(JobSpec.model_validate(EXAMPLE_SPEC)) is None
    assert await kept.stored(spec()) is None


async def test_job_when_its_code_is_tried_then_a_bad_import_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("1 / 0\n")
    (tmp_path / "fine.py").write_text("def run(events, p): ...\n")
    (tmp_path / "code").mkdir()
    for name in ("job", "fine"):
        (tmp_path / f"{name}.py").rename(tmp_path / "code" / f"{name}.py")
    kept = artefacts(tmp_path, Hub(), Registry({}, []))
    fine = spec(artefact="code", entry="fine:run")
    assert await kept.tried(fine) == await kept.stored(fine)
    with pytest.raises(TowpathError, match=r"ZeroDivisionError: division by zero \(line 1 of job\.py"):
        await kept.tried(spec(artefact="code"))
