"""Every panel of the dashboards shows data of a mesh that runs, by Prometheus as the overlay sets it up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S
from running.prometheus import Prometheus, dashboard_queries, prometheus_binary, running_prometheus
from running.waiting import WITHIN_S, until
from running.whole_mesh import WholeMesh, whole_mesh

BINARY = prometheus_binary()

PANELS_S = 12 * WITHIN_S
"""Prometheus asks every 15 s, and a rate needs two answers. Bandwidth is measured every 5 minutes."""


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[WholeMesh]:
    """Run a mesh for this test alone: a shared one would take cores from the pages that follow."""
    with whole_mesh(tmp_path) as running:
        yield running


@pytest.mark.skipif(BINARY is None, reason="Debian's package prometheus is not installed")
@pytest.mark.timeout(MESH_TIMEOUT_S + PANELS_S)
def test_dashboards_when_a_job_has_moved_then_every_query_finds_data(mesh: WholeMesh, tmp_path: Path) -> None:
    assert BINARY is not None
    for job in ("clean", "window"):
        mesh.deploy_example(job)
    replay = mesh.start("replay", "--site", "jfk", "--airport", "JFK", "--rate", "100")
    try:
        with running_prometheus(BINARY, mesh.state, tmp_path) as prometheus:
            mesh.succeed("migrate", "hourly-jfk", "--to", "cloud")

            seen = collect(prometheus)
    finally:
        replay.kill()
        replay.communicate()

    assert set(dashboard_queries()) - seen == set()


def collect(prometheus: Prometheus) -> set[str]:
    """Return the queries that have found data, once all have or time is up."""
    queries, seen = dashboard_queries(), set[str]()

    def all_seen() -> bool:
        seen.update(name for name in queries.keys() - seen if prometheus.series(queries[name]))
        return seen == queries.keys()

    with contextlib.suppress(AssertionError):  # The test names those that are missing.
        until(all_seen, PANELS_S)
    return seen
