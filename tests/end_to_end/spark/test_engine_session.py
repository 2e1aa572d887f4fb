"""The start of an engine's JVM."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from towpath.engine.class_archive import class_archive


def test_class_archive_when_the_installation_has_one_then_the_jvm_maps_it(session: SparkSession) -> None:
    assert class_archive().exists(), "`make setup` makes it"
    gateway = session.sparkContext._gateway
    assert gateway is not None
    assert gateway.proc is not None
    assert str(class_archive()) in Path(f"/proc/{gateway.proc.pid}/maps").read_text()
