"""The settings of a session for the place of its tasks, and the loss of its executors."""

from __future__ import annotations

from pathlib import Path

from towpath.contracts.site import EngineSpec
from towpath.engine.masters import WITHOUT_EXECUTORS_S, Executors, placed
from towpath.engine.settings import EngineSettings
from towpath.engines.spark.binder import is_cluster

CLUSTER = EngineSpec(
    spark_master="spark://big:7077", cluster_cores=6, executor_memory="2g", driver_host="10.0.0.7"
)


def settings(spec: EngineSpec) -> EngineSettings:
    return EngineSettings("jfk", spec, "", "engine", "", Path())


def test_placed_when_the_master_is_a_cluster_then_takes_what_the_site_may_and_is_reachable() -> None:
    conf = placed(CLUSTER, "-XX:+UseSerialGC")
    assert is_cluster(CLUSTER)
    assert (conf["spark.cores.max"], conf["spark.executor.memory"]) == ("6", "2g")
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "10.0.0.7"
    assert conf["spark.executor.extraJavaOptions"] == "-XX:+UseSerialGC"
    assert int(conf["spark.task.maxFailures"]) > 1


def test_placed_when_the_master_is_local_then_no_one_else_reaches_the_driver() -> None:
    conf = placed(EngineSpec(), "")
    assert not is_cluster(EngineSpec())
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.task.maxFailures"] == "1"


def test_cores_when_counted_then_are_those_of_the_master() -> None:
    assert settings(CLUSTER).cores == 6
    assert settings(EngineSpec(spark_master="local[3]")).cores == 3
    assert settings(EngineSpec(spark_master="local")).cores == 1


def test_executors_when_none_are_left_for_long_then_are_lost() -> None:
    executors = Executors()
    assert not executors.are_lost(2, 0.0)
    assert not executors.are_lost(0, 1.0)
    assert not executors.are_lost(0, 1.0 + WITHOUT_EXECUTORS_S)
    assert executors.are_lost(0, 2.0 + WITHOUT_EXECUTORS_S)


def test_executors_when_one_comes_back_in_time_then_are_not_lost() -> None:
    executors = Executors()
    assert not executors.are_lost(1, 0.0)
    assert not executors.are_lost(0, 1.0)
    assert not executors.are_lost(1, 20.0)
    assert not executors.are_lost(0, 21.0)
    assert not executors.are_lost(0, 21.0 + WITHOUT_EXECUTORS_S)


def test_executors_when_there_never_were_any_then_the_engine_waits() -> None:
    executors = Executors()
    assert not any(executors.are_lost(0, float(second)) for second in range(0, 600, 2))
