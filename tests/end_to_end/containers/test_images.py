"""The images hold what runs in them, as it was installed and without the repository beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from docker.errors import ImageNotFound

from running.docker import Yard, build_images, yard

TAG = os.environ.get("TOWPATH_TAG", "local")
SERVICES = ("coordinator", "monitor", "collector", "api", "lab.injector", "lab.links", "lab.guard")

LOOK_AT_FILES = """
import json
from importlib import resources
from towpath.api.handlers.page import FOLDER
from towpath.lab.faults.conditions import compile_condition
from towpath.lab.faults.registry import faults
from towpath.lab.scenarios.reading import LIBRARY
from towpath.lab.topology.reading import LIBRARY as TOPOLOGIES
print(json.dumps({
    "page": sorted(path.name for path in FOLDER.iterdir()),
    "condition": sorted(compile_condition("event.delay > 15.0").names),
    "faults": sorted(faults()),
    "scenarios": len(LIBRARY.names()),
    "topologies": TOPOLOGIES.names(),
    "style": len(resources.files("towpath.reports").joinpath("page.css").read_bytes()),
    "user code": resources.files("towpath.lab.demonstration.faults").joinpath("word_count_code.py").is_file(),
}))
"""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def place(docker_daemon: str) -> Iterator[Yard]:
    with yard() as made:
        try:
            made.docker.images.get(f"towpath-services:{TAG}")
        except ImageNotFound:
            build_images(TAG)
        yield made


def said(place: Yard, image: str, *command: str) -> str:
    """Run a command as compose runs it, without privileges and on a read-only disk. Return its output."""
    output: Any = place.docker.containers.run(
        f"towpath-{image}:{TAG}",
        [*command],
        remove=True,
        read_only=True,
        tmpfs={"/tmp": "exec"},
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
    )
    return output.decode()


def test_site_has_an_archive_of_the_classes_that_its_java_loads(place: Yard) -> None:
    option = "from towpath.engine.class_archive import archive_option; print(archive_option())"
    assert said(place, "site", "python", "-c", option).startswith("-XX:SharedArchiveFile=/opt/towpath/")


def test_files_that_are_no_code_are_in_the_image(place: Yard) -> None:
    found = json.loads(said(place, "services", "python", "-c", LOOK_AT_FILES))
    assert {"index.html", "app.js", "uPlot.esm.js"} <= set(found["page"])
    assert found["condition"] == ["event"]
    assert {"stop", "disconnect", "kill"} <= set(found["faults"])
    assert found["scenarios"] > 30
    assert {"city-traffic", "railway", "factory"} <= set(found["topologies"])
    assert found["style"] > 100
    assert found["user code"]


def test_services_are_there_with_all_that_they_import(place: Yard) -> None:
    imports = "; ".join(f"import towpath.{service}.__main__" for service in SERVICES)
    assert said(place, "services", "python", "-c", f"{imports}; print('all')").strip() == "all"


def test_site_has_agent_engine_java_and_mosquitto(place: Yard) -> None:
    programs = "java -version 2>&1 && mosquitto -h | head --lines 1"
    script = f"python -m towpath.agent --help && python -c 'import towpath.engine.app' && {programs}"
    output = said(place, "site", "bash", "-c", script)
    assert "--home" in output
    assert "openjdk" in output.lower()
    assert "mosquitto version 2" in output


@pytest.mark.parametrize("image", ["services", "site"])
def test_who_runs_is_not_root_and_finds_the_command(place: Yard, image: str) -> None:
    assert said(place, image, "id", "-u").strip() == "10001"
    assert "scenario" in said(place, image, "towpath", "--help")
