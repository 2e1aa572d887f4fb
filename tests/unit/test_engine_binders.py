"""Every engine of the registry behaves as agents need it; Spark's heap, and what it loads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest
from engine_suite import EngineSuite, PlayedEngine, Writer
from spark_checkpoints import SparkWriter

from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobContainer
from towpath.contracts.site import SMALLEST_HEAP_MB, EngineKind, EngineSpec
from towpath.engines.binders import BINDERS
from towpath.engines.spark.binder import heap_mb
from towpath.mesh.settings import parse_spec

WRITERS: Mapping[EngineKind, Writer] = {EngineKind.SPARK: SparkWriter()}
"""A new engine has one as well."""


class TestEngines(EngineSuite):
    """The suite, once for each engine."""

    @pytest.fixture(params=list(EngineKind))
    def engine(self, request: pytest.FixtureRequest) -> PlayedEngine:
        return PlayedEngine(BINDERS[request.param], WRITERS[request.param])


def test_binders_when_loaded_then_need_none_of_the_packages_that_they_name() -> None:
    needed = {p for binder in BINDERS.values() for p in (*binder.agent_packages, *binder.engine_packages)}
    command = "import sys, towpath.engines.binders; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)

    assert needed.isdisjoint(loaded.stdout.split())


def test_kind_of_engine_when_it_is_unknown_then_the_error_names_those_that_are_allowed() -> None:
    with pytest.raises(TowpathError) as refused:
        parse_spec({"sites": [{"name": "jfk", "engine": {"kind": "abacus"}}]})
    detail = refused.value.detail
    assert (detail.field, detail.value, detail.allowed) == ("sites.0.engine.kind", "abacus", "'spark'")


@pytest.mark.parametrize(
    ("memory_mb", "heap"),
    [(None, None), (1528, 1000), (600, SMALLEST_HEAP_MB)],
    ids=["open", "roomy", "tight"],
)
def test_heap_of_a_jobs_engine_fits_into_its_container_when_that_is_limited(
    memory_mb: int | None, heap: int | None
) -> None:
    assert heap_mb(JobContainer(memory_mb=memory_mb), EngineSpec(state_memory_mb=128)) == heap
