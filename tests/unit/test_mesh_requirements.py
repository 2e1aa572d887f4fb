"""Missing requirements of sites are reported before anything starts."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.site import MeshSpec
from towpath.mesh.home import Home
from towpath.mesh.lifecycle import up
from towpath.mesh.requirements import check_requirements
from towpath.mesh.settings import spec_of_sites

CONTAINERS = MeshSpec.model_validate({"sites": [{"name": "jfk", "container": {"runtime": "docker"}}]})


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Let these packages not be installed."""
    find = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in packages else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)


def java(monkeypatch: pytest.MonkeyPatch, home: Path, version: str) -> None:
    """Let Java be one that tells this version."""
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}" 2024-07-16' >&2\n""")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))


def test_up_when_pyspark_is_missing_then_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "pyspark", "pandas")
    with pytest.raises(TowpathError, match=r"pandas, pyspark.*pip install 'towpath\[engine\]'"):
        up(Home(tmp_path / "home"), spec_of_sites("jfk"))
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_requirements_when_java_is_too_old_then_say_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java(monkeypatch, tmp_path, version)
    with pytest.raises(TowpathError, match=r"Java is too old: version (8|11).*openjdk-17"):
        check_requirements(spec_of_sites("jfk"))


@pytest.mark.parametrize("version", ["17.0.12", "21"])
def test_requirements_when_java_is_new_enough_then_are_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java(monkeypatch, tmp_path, version)
    check_requirements(spec_of_sites("jfk"))


def test_requirements_when_engines_are_in_containers_then_only_agents_have_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    without(monkeypatch, "pyspark")
    check_requirements(CONTAINERS)
    without(monkeypatch, "pyarrow")
    with pytest.raises(TowpathError, match="pyarrow"):
        check_requirements(CONTAINERS)
