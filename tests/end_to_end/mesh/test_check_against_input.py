"""`towpath check --against input` judges processing-time windows of a whole mesh by the stored input."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S, read_line
from running.whole_mesh import WholeMesh

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

SPEC = """\
name: counts
site: jfk
inputs: [{site: jfk, topic: site/counted}]
output: {topic: departures/counts}
operator:
  kind: processing_window
  fields: {carrier: string, delay: double}
  size_s: 2
  key: [carrier]
  aggregates:
    departures: {function: count}
    total_delay: {function: sum, field: delay}
    p95_delay: {function: percentile, field: delay, q: 0.95}
"""

FORWARD = """\
name: forward
site: jfk
inputs: [{site: jfk, topic: site/counted}]
output: {topic: departures/all}
operator: {kind: forward}
"""


@pytest.fixture(scope="module")
def towpath(shared_mesh: WholeMesh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeMesh]:
    """The shared mesh with a job of processing windows, and one of another kind."""
    directory = tmp_path_factory.mktemp("specs")
    for name, spec in (("counts", SPEC), ("forward", FORWARD)):
        path = directory / f"{name}.yaml"
        path.write_text(spec)
        shared_mesh.succeed("deploy", str(path))
    yield shared_mesh
    shared_mesh.remove("counts", "forward")


def test_check_when_windows_end_while_events_flow_then_they_partition_the_input_and_are_right(
    towpath: WholeMesh,
) -> None:
    judging = ("--against", "input", "--for", "60", "--json")
    check = towpath.start("check", "departures/counts", "--site", "jfk", *judging)
    try:
        assert "subscribed" in read_line(check, "stderr")
        replay = towpath.json(
            *("replay", "--site", "jfk", "--airport", "JFK", "--limit", "1500", "--rate", "150"),
            *("--malformed-every", "100", "--topic", "site/counted"),
        )
        verdict = json.loads(check.communicate(timeout=STEP_S)[0])
    finally:
        check.kill()
    assert replay["acknowledged"] == 1515
    assert verdict["clean"], verdict
    assert verdict["expected"] == verdict["results"] > 0
    assert check.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("departures/all", "--site", "jfk", "--against", "input"), "processing_window"),
        (("departures/none", "--site", "jfk", "--against", "input"), "no job publishes here"),
        (("departures/counts", "--site", "jfk", "--against", "input", "--until-complete"), "--for SECONDS"),
    ],
    ids=["another operator", "no job", "until complete"],
)
def test_check_against_input_when_it_cannot_be_done_then_the_error_says_what_is_allowed(
    towpath: WholeMesh, arguments: tuple[str, ...], said: str
) -> None:
    ended = towpath.run("check", *arguments)
    assert ended.returncode != 0
    assert said in " ".join(ended.stderr.split())
