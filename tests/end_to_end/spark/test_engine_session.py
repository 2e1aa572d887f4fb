"""The start of an engine's JVM."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from towpath.engine.class_archive import class_archive
from towpath.engine.warm_up import warm_up
from towpath.streams.source import StreamSource


def test_class_archive_when_the_installation_has_one_then_the_jvm_maps_it(session: SparkSession) -> None:
    assert class_archive().exists(), "`make setup` makes it"
    gateway = session.sparkContext._gateway
    assert gateway is not None
    assert gateway.proc is not None
    assert str(class_archive()) in Path(f"/proc/{gateway.proc.pid}/maps").read_text()


def test_files_when_spark_writes_them_then_no_process_is_started_for_their_permissions(
    session: SparkSession, tmp_path: Path
) -> None:
    jvm = session.sparkContext._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
    files = path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
    other = tmp_path / "other"
    other.touch()
    faults = _minor_faults_of_ended_children(session)
    for _ in range(20):
        files.create(path, True).close()
    assert (tmp_path / "file").stat().st_mode == other.stat().st_mode
    assert _minor_faults_of_ended_children(session) == faults


def _minor_faults_of_ended_children(session: SparkSession) -> int:
    """The page faults of all processes that the JVM started and that have ended: each has some hundred."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    assert gateway.proc is not None
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[8])


def test_warm_up_when_an_engine_starts_then_needs_no_server(session: SparkSession) -> None:
    warm_up(session, read_ahead=True)
    assert session.streams.active == []


def test_source_when_queries_start_at_the_same_moment_then_their_shared_map_bears_it(
    session: SparkSession,
) -> None:
    sources = session._jsparkSession.sessionState().dataSourceManager()
    variables = sources.lookupDataSource(StreamSource.name()).dataSourceCls().envVars()
    jvm = session.sparkContext._jvm
    assert jvm is not None
    assert jvm.py4j.reflection.TypeUtil.isInstanceOf("java.util.concurrent.ConcurrentMap", variables)
