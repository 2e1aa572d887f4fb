"""The choice of the class archive for an engine's JVM."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from towpath.engine.class_archive import archive_option, class_archive


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with a Java of its own, and no archive."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return java


def test_option_when_there_is_no_archive_then_is_empty() -> None:
    assert archive_option() == ""


def test_option_when_there_is_an_archive_then_names_it() -> None:
    class_archive().parent.mkdir(parents=True)
    class_archive().touch()
    assert archive_option() == f"-XX:SharedArchiveFile={class_archive()}"


def test_archive_when_java_or_pyspark_is_another_then_is_another(
    installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = {class_archive()}
    installation.unlink()
    archives.add(class_archive())
    monkeypatch.setattr(pyspark, "__version__", "9.9.9")
    archives.add(class_archive())
    assert len(archives) == 3
