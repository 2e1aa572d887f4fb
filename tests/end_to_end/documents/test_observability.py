"""Every panel of the dashboards shows data of a mesh that runs, by Prometheus as the overlay sets it up."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.prometheus import Prometheus, dashboard_queries, prometheus_binary, running_prometheus
from running.waiting import WITHIN_S, until
from running.whole_mesh import WholeMesh

BINARY = prometheus_binary()

PANELS_S = 5 * WITHIN_S
"""Prometheus asks every 15 s, and a rate needs two answers; links are measured once a minute."""


@pytest.mark.skipif(BINARY is None, reason="Debian's package prometheus is not installed")
@pytest.mark.timeout(MESH_TIMEOUT_S + PANELS_S + STEP_S)
def test_dashboards_when_a_job_has_moved_then_every_query_finds_data(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    assert BINARY is not None
    for job in ("clean", "window"):
        shared_mesh.deploy_example(job)
    replay = shared_mesh.start("replay", "--site", "jfk", "--airport", "JFK", "--rate", "100")
    try:
        with running_prometheus(BINARY, shared_mesh.state, tmp_path) as prometheus:
            shared_mesh.succeed("migrate", "hourly-jfk", "--to", "cloud")

            seen = collect(prometheus)
    finally:
        replay.kill()
        replay.communicate()
        shared_mesh.remove("hourly-jfk", "clean-jfk")

    assert set(dashboard_queries()) - seen == set()


def collect(prometheus: Prometheus) -> set[str]:
    """The queries that have found data, once all have or time is up."""
    queries, seen = dashboard_queries(), set[str]()

    def all_seen() -> bool:
        seen.update(name for name in queries.keys() - seen if prometheus.series(queries[name]))
        return seen == queries.keys()

    with contextlib.suppress(AssertionError):  # The test names those that are missing.
        until(all_seen, PANELS_S)
    return seen
