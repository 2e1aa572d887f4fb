"""The class in Java that is kept compiled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from towpath.engines.spark.local_files import JAR, compile_jar


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK")
def test_compiled_class_when_compared_with_its_source_then_is_made_of_it(tmp_path: Path) -> None:
    compile_jar(tmp_path / "made.jar")
    assert (tmp_path / "made.jar").read_bytes() == JAR.read_bytes()
