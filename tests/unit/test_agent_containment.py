"""The parts of a site run as processes or in containers, and an image is there before a job needs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from running.docker_double import DockerDouble
from running.waiting import WITHIN_S
from towpath.agent import containment
from towpath.agent.containment import Containment
from towpath.cli.mesh import check_container_sites
from towpath.containers import images
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ContainerLimits, JobContainer
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.contracts.pipeline import PipelineJob
from towpath.contracts.site import (
    ContainerSpec,
    MeshSpec,
    SiteRuntime,
    SiteSpec,
)
from towpath.mesh.home import Home
from towpath.processes import ChildSpec, Container


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[DockerDouble]:
    with DockerDouble(tmp_path) as double:
        yield double


def of(docker: DockerDouble, **settings) -> ContainerSpec:
    given = {"runtime": SiteRuntime.DOCKER, "image": "site:1", "docker_host": docker.host}
    return ContainerSpec.model_validate({**given, **settings})


def at(tmp_path: Path, spec: ContainerSpec) -> Containment:
    return Containment(spec, Home(tmp_path), "jfk")


def child(tmp_path: Path, name: str) -> ChildSpec:
    return ChildSpec(name, ("python", "-c", ""), tmp_path / "logs" / f"{name}.log")


def container_of(spec: ChildSpec) -> Container:
    assert spec.container is not None
    return spec.container


def test_parts_when_the_runtime_is_process_then_are_left_as_they_are(tmp_path: Path) -> None:
    given = child(tmp_path, "jfk-engine")
    parts = at(tmp_path, ContainerSpec())
    assert (parts.server(given), parts.engine(given, [], [])) == (given, given)
    assert parts.brokers([given]) == [given]


def test_parts_when_contained_then_each_sees_its_own_files(docker: DockerDouble, tmp_path: Path) -> None:
    limits = {"server": ContainerLimits(memory_mb=200), "engine": ContainerLimits(cpus=1.5)}
    parts, home = at(tmp_path, of(docker, **limits)), Home(tmp_path)
    server = container_of(parts.server(child(tmp_path, "jfk-nats")))
    given = child(tmp_path, "jfk-engine")
    engine = container_of(parts.engine(given, [home.jobs("jfk")], [home.site_artefacts("jfk")]))
    assert server.mounts == (home.nats("jfk"), home.logs)
    assert engine.mounts == (home.jobs("jfk"), given.log)
    assert engine.read_only == (home.site_artefacts("jfk"),)
    assert (server.limits, engine.limits) == (limits["server"], limits["engine"])
    assert (server.starts_others, engine.starts_others) == (False, True)


def test_engine_of_a_job_when_it_names_an_image_then_has_that_and_the_jobs_limits(
    docker: DockerDouble, tmp_path: Path
) -> None:
    parts = at(tmp_path, of(docker, image_archive="/site.tar", engine=ContainerLimits(cpus=4)))
    wanted = JobContainer(image="own:1", memory_mb=900)
    own = container_of(parts.engine(child(tmp_path, "jfk-engine.hourly"), [], [], wanted))
    assert (own.image, own.image_archive, own.limits) == ("own:1", None, ContainerLimits(memory_mb=900))
    shared = container_of(parts.engine(child(tmp_path, "jfk-engine.daily"), [], [], JobContainer(cpus=1)))
    assert (shared.image, shared.image_archive) == ("site:1", "/site.tar")


async def test_image_when_it_is_there_then_nothing_is_fetched(docker: DockerDouble, tmp_path: Path) -> None:
    await at(tmp_path, of(docker)).ensure_image()
    assert docker.images == {"site:1"}


async def test_image_when_it_is_missing_then_is_loaded_from_its_archive(
    docker: DockerDouble, tmp_path: Path
) -> None:
    archive = tmp_path / "site.tar"
    archive.write_bytes(b"x" * 100_000)
    await at(tmp_path, of(docker, image="site:2", image_archive=str(archive))).ensure_image()
    assert "site:2" in docker.images


@pytest.mark.parametrize(
    ("image", "archive", "field", "said"),
    [
        ("site:9", None, "container.image", "no registry gives it"),
        ("site:9", "other.tar", "container.image", "contains another image"),
        ("site:2", "nothing.tar", "container.image_archive", "No such file"),
    ],
)
async def test_image_when_it_cannot_be_had_then_the_error_says_which_setting_is_wrong(
    docker: DockerDouble, tmp_path: Path, image: str, archive: str | None, field: str, said: str
) -> None:
    (tmp_path / "other.tar").write_bytes(b"x")
    path = str(tmp_path / archive) if archive else None
    with pytest.raises(TowpathError, match=said) as refused:
        await at(tmp_path, of(docker, image=image, image_archive=path)).ensure_image()
    assert (refused.value.detail.code, refused.value.detail.field) == (ErrorCode.INVALID, field)
    assert not refused.value.detail.retryable


async def test_image_of_a_job_when_the_site_runs_processes_then_the_job_is_refused(tmp_path: Path) -> None:
    processes = at(tmp_path, ContainerSpec())
    await processes.ensure_image(JobContainer(memory_mb=500))
    with pytest.raises(TowpathError) as refused:
        await processes.ensure_image(JobContainer(image="own:1"))
    assert (refused.value.detail.code, refused.value.detail.value) == (ErrorCode.NOT_ALLOWED, "own:1")


async def test_image_of_a_job_when_the_site_does_not_list_it_then_the_job_is_refused(
    docker: DockerDouble, tmp_path: Path
) -> None:
    docker.images.add("own@sha256:1")
    parts = at(tmp_path, of(docker, images=["own@sha256:1"]))
    await parts.ensure_image(JobContainer(image="own@sha256:1"))
    await parts.ensure_image(JobContainer(memory_mb=500))

    with pytest.raises(TowpathError) as refused:
        await parts.ensure_image(JobContainer(image="own:1"))

    assert (refused.value.detail.code, refused.value.detail.allowed) == (
        ErrorCode.NOT_ALLOWED,
        ["own@sha256:1"],
    )


async def test_image_when_fetching_takes_long_then_callers_are_told_to_ask_again_and_it_is_fetched_once(
    docker: DockerDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, fetched = threading.Event(), list[str]()

    def fetch(image: str, *_: object) -> None:
        fetched.append(image)
        assert released.wait(WITHIN_S)

    monkeypatch.setattr(images, "ensure", fetch)
    monkeypatch.setattr(containment, "FETCH_ANSWER_S", 0.1)
    parts = at(tmp_path, of(docker))
    asked = await asyncio.gather(parts.ensure_image(), parts.ensure_image(), return_exceptions=True)
    codes = [error.detail.code for error in asked if isinstance(error, TowpathError)]
    assert codes == [ErrorCode.BUSY, ErrorCode.BUSY]
    released.set()
    monkeypatch.setattr(containment, "FETCH_ANSWER_S", WITHIN_S)
    await parts.ensure_image()
    assert fetched == ["site:1"]


async def test_trouble_when_the_daemon_goes_then_is_told_until_it_returns(
    docker: DockerDouble, tmp_path: Path
) -> None:
    parts = at(tmp_path, of(docker))
    assert await parts.trouble() is None
    docker.go_away()
    assert "no container daemon answers" in str(await parts.trouble())
    docker.come_back()
    assert await parts.trouble() is None
    assert await at(tmp_path, ContainerSpec()).trouble() is None


@pytest.mark.parametrize(
    ("settings", "field"), [({"image": "site:9"}, "sites.1.container.image"), ({}, "DOCKER_HOST")]
)
def test_up_when_a_sites_containers_could_not_start_then_names_the_site_and_the_setting(
    docker: DockerDouble, settings: dict[str, str], field: str
) -> None:
    if not settings:
        docker.go_away()
    cloud = SiteSpec(name="cloud", container=of(docker, **settings))
    with pytest.raises(TowpathError, match=r"^cloud: ") as refused:
        check_container_sites(MeshSpec(sites=[SiteSpec(name="jfk"), cloud]))
    assert refused.value.detail.field == field


def test_up_when_all_is_there_or_no_site_runs_containers_then_has_no_objection(docker: DockerDouble) -> None:
    check_container_sites(MeshSpec(sites=[SiteSpec(name="jfk", container=of(docker))]))
    docker.go_away()
    check_container_sites(MeshSpec(sites=[SiteSpec(name="jfk")]))


def test_container_of_a_pipelines_job_when_it_says_no_limits_then_gets_what_the_job_needs() -> None:
    body = {
        "name": "hourly",
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": "site/a"}],
        "output": {"topic": "hourly"},
        "operator": EXAMPLE_ASSIGNMENT["spec"]["operator"],
        "resources": {"cores": 0.5, "memory_mb": 800},
        "container": {"cpus": 1.0},
    }
    job = PipelineJob.model_validate(body).job_spec()
    assert job.container == JobContainer(cpus=1.0, memory_mb=800)
