"""The command line against a whole mesh of two sites: the walk a new user takes, and what scripts rely on."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_command_line import (
    CHECK_S,
    DOWN_S,
    MESH_TIMEOUT_S,
    START_S,
    STEP_S,
    UP_S,
    CommandLine,
    read_line,
)

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

EXAMPLES = Path(__file__).parents[2] / "examples"
EVENTS = 1_500
"""Departures replayed: the first three days of January at one airport."""


@pytest.fixture(scope="module")
def towpath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A mesh with the jobs of `clean.yaml` and `window.yaml`."""
    line = CommandLine(tmp_path_factory.mktemp("mesh"))
    try:
        started = line.run("up", "--sites", "jfk,cloud", "--within", str(UP_S), within_s=START_S)
        assert started.returncode == 0, started.stderr
        for name in ("clean", "window"):
            deployed = line.run("deploy", str(EXAMPLES / f"{name}.yaml"))
            assert deployed.returncode == 0, deployed.stderr
        yield line
    finally:
        line.run("down", within_s=DOWN_S)


def test_up_when_it_returns_then_every_site_is_up_and_its_processes_run(towpath: CommandLine) -> None:
    assert {site["site"]: site["state"] for site in towpath.json("sites")} == {"jfk": "up", "cloud": "up"}
    status = towpath.json("status")
    assert status["problem"] is None
    assert {site["site"] for site in status["sites"]} == {"jfk", "cloud"}
    running = {process["name"] for process in status["processes"] if process["running"]}
    assert {"hub", "redis", "coordinator", "jfk-agent", "cloud-agent"} <= running


def test_jobs_when_deployed_then_are_listed_where_they_run(towpath: CommandLine) -> None:
    listed = {job["spec"]["name"]: job for job in towpath.json("jobs")}
    assert {"clean-jfk", "hourly-jfk"} <= listed.keys()
    assert listed["clean-jfk"]["site"] == "jfk"
    table = towpath.run("jobs").stdout
    assert "clean-jfk" in table
    assert "hourly-jfk" in table


def test_results_when_the_window_job_moves_while_events_flow_then_check_finds_nothing_lost_or_repeated(
    towpath: CommandLine,
) -> None:
    truth = ("--against", "departures", "--airport", "JFK", "--limit", str(EVENTS))
    check = towpath.start(
        "check",
        "departures/hourly",
        "--site",
        "jfk",
        "--for",
        str(CHECK_S),
        "--until-complete",
        *truth,
        "--json",
    )
    replay = None
    try:
        assert "subscribed" in read_line(check, "stderr")
        replay = towpath.start(
            *("replay", "--site", "jfk", "--airport", "JFK", "--limit", str(EVENTS), "--rate", "150"),
            *("--malformed-every", "100", "--close", "--json"),
        )
        moved = towpath.json("migrate", "hourly-jfk", "--to", "cloud")
        replayed = json.loads(replay.communicate(timeout=STEP_S)[0])
        verdict = json.loads(check.communicate(timeout=STEP_S)[0])
    finally:
        check.kill()
        if replay is not None:
            replay.kill()
    assert [(answer["kind"], answer["state"]) for answer in moved] == [("migrate", "completed")]
    assert replayed["acknowledged"] == EVENTS + EVENTS // 100 + 1
    assert verdict["clean"], verdict
    assert verdict["expected"] > 100
    assert check.returncode == 0
    listed = {job["spec"]["name"]: job["site"] for job in towpath.json("jobs")}
    assert listed["hourly-jfk"] == "cloud"


def test_operation_when_a_job_has_moved_then_shows_its_journal_and_what_it_cost(towpath: CommandLine) -> None:
    if towpath.json("jobs")[-1]["site"] == "jfk":
        towpath.json("migrate", "hourly-jfk", "--to", "cloud")
    newest = towpath.json("migrations", "--limit", "1")[0]
    assert (newest["source"], newest["target"], newest["state"]) == ("jfk", "cloud", "completed")
    shown = towpath.json("operation", newest["operation"])
    steps = [entry["step"] for entry in shown["journal"]]
    assert (shown["strategy"], "await-consistency" in steps) == ("handover", True)
    assert shown["figures"]["total_s"] > 0
    table = towpath.run("operation", newest["operation"]).stdout
    assert all(step in table for step in steps)


def test_top_when_asked_once_then_tells_sites_jobs_and_links_as_json(towpath: CommandLine) -> None:
    view = towpath.json("top", "--once")
    assert {site["site"]: site["state"] for site in view["sites"]} == {"jfk": "up", "cloud": "up"}
    assert {"clean-jfk", "hourly-jfk"} <= {job["job"] for job in view["jobs"]}
    assert all(site["memory_bytes"] > 1e6 for site in view["sites"])
    assert view["figures"] in ("collector", "heartbeats")
    table = towpath.run("top", "--once").stdout
    assert all(word in table for word in ("Sites", "Jobs", "hourly-jfk", "cloud"))


def test_top_when_watched_then_shows_look_after_look_and_ctrl_c_ends_it_well(towpath: CommandLine) -> None:
    watching = towpath.start("top", "--json", "--interval", "0.2")
    try:
        looks = [json.loads(read_line(watching, "stdout")) for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=STEP_S)
    finally:
        watching.kill()
    assert looks[0]["at"] < looks[1]["at"] < looks[2]["at"]
    assert (watching.returncode, err) == (0, "")


def test_report_when_a_job_has_moved_then_has_all_sections_in_one_file(
    towpath: CommandLine, tmp_path: Path
) -> None:
    """Behind the test that moves the job under load."""
    newest = towpath.json("migrations", "--limit", "1")[0]
    page = tmp_path / "report.html"
    ended = towpath.run("report", newest["operation"], "--output", str(page))
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    text = page.read_text()
    titles = ("What it cost", "Step by step", "What the job did meanwhile", "Trace", "Journal")
    assert [title for title in titles if f"<h2>{title}</h2>" in text] == [*titles]
    assert text.count("<svg") == text.count('role="img"') >= 1
    assert "://" not in text
    unknown = towpath.run("report", "nothing-of-this-name")
    assert (unknown.returncode, unknown.stdout, unknown.stderr.count("\n")) == (2, "", 1), unknown.stderr


def test_events_when_read_from_the_start_then_tell_of_the_deploys(towpath: CommandLine) -> None:
    ended = towpath.run("events", "--json")
    assert ended.returncode == 0, ended.stderr
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    deployed = [
        event["body"]["job"]
        for event in events
        if event["subject"].endswith(".ended") and event["body"]["kind"] == "deploy"
    ]
    assert {"clean-jfk", "hourly-jfk"} <= set(deployed)


def test_events_when_followed_then_a_refused_command_shows_and_ctrl_c_ends_without_traceback(
    towpath: CommandLine,
) -> None:
    follower = towpath.start("events", "--follow", "--from-start")
    try:
        read_line(follower, "stdout")
        refused = towpath.run("migrate", "hourly-jfk", "--to", "mars")
        while "mars" not in (line := read_line(follower, "stdout")):
            continue
        assert "refused" in line
        follower.send_signal(signal.SIGINT)
        out, err = follower.communicate(timeout=STEP_S)
    finally:
        follower.kill()
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "mars" in refused.stderr
    assert "jfk" in refused.stderr
    assert (follower.returncode, err) == (130, ""), out


def test_publish_when_given_any_command_then_prints_its_reply(towpath: CommandLine) -> None:
    ended = towpath.run("publish", "list-sites", "-", stdin="{}")
    assert ended.returncode == 0, ended.stderr
    assert {site["site"] for site in json.loads(ended.stdout)["sites"]} == {"jfk", "cloud"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("remove", "nobody"), "nobody"),
        (("operation", "nothing"), "nothing"),
        (("replay", "--site", "mars", "--limit", "1"), "jfk"),
        (("replay", "--site", "jfk", "--airport", "LHR"), "JFK"),
        (("replay", "--site", "jfk", "--rate", "0", "--limit", "1"), "rate"),
        (("check", "departures/nothing", "--site", "jfk", "--against", "departures"), "departures/hourly"),
        (("check", "departures/clean", "--site", "jfk", "--against", "departures"), "tumbling"),
        (("logs", "nobody"), "jfk-agent"),
    ],
)
def test_command_when_the_mesh_refuses_it_then_one_line_says_what_is_allowed(
    towpath: CommandLine, arguments: tuple[str, ...], said: str
) -> None:
    ended = towpath.run(*arguments)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1), ended.stderr
    assert said in ended.stderr


def test_deploy_when_another_job_has_the_name_then_is_refused_and_the_same_job_is_not(
    towpath: CommandLine, tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text((EXAMPLES / "clean.yaml").read_text() + "trigger_s: 7\n")
    refused = towpath.run("deploy", str(other))
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "clean-jfk" in refused.stderr
    assert towpath.run("deploy", str(EXAMPLES / "clean.yaml")).returncode == 0


def test_update_when_only_the_trigger_changes_then_the_job_goes_on(
    towpath: CommandLine, tmp_path: Path
) -> None:
    changed = tmp_path / "clean.yaml"
    changed.write_text((EXAMPLES / "clean.yaml").read_text() + "trigger_s: 2.5\n")
    (answer,) = towpath.json("update", str(changed))
    assert (answer["kind"], answer["state"]) == ("update", "completed")
    listed = {job["spec"]["name"]: job for job in towpath.json("jobs")}
    assert listed["clean-jfk"]["spec"]["trigger_s"] == 2.5


def test_logs_when_followed_then_print_what_is_kept_and_ctrl_c_ends_them(towpath: CommandLine) -> None:
    follower = towpath.start("logs", "coordinator", "--follow")
    try:
        read_line(follower, "stdout")
        follower.send_signal(signal.SIGINT)
        _, err = follower.communicate(timeout=STEP_S)
    finally:
        follower.kill()
    assert (follower.returncode, err) == (130, "")


def operator_environment(towpath: CommandLine) -> dict[str, str]:
    """What `eval "$(towpath access --env)"` adds to a shell."""
    printed = towpath.run("access", "--env")
    assert printed.returncode == 0, printed.stderr
    pairs = (line.removeprefix("export ").split("=", 1) for line in printed.stdout.splitlines())
    return {**os.environ, **{name: value.strip("'") for name, value in pairs}}


def test_nats_client_when_it_publishes_a_migrate_command_then_the_job_moves_and_its_events_follow(
    towpath: CommandLine,
) -> None:
    here = next(j["site"] for j in towpath.json("jobs") if j["spec"]["name"] == "clean-jfk")
    there = "cloud" if here == "jfk" else "jfk"
    script = EXAMPLES / "migrate_with_nats.py"
    moved = subprocess.run(
        [sys.executable, str(script), "clean-jfk", there],
        env=operator_environment(towpath),
        capture_output=True,
        text=True,
        timeout=STEP_S,
    )
    assert moved.returncode == 0, moved.stderr
    subjects = [line.split(" ", 1)[0] for line in moved.stdout.splitlines()]
    assert subjects[0].endswith(".begun")
    assert subjects[-1].endswith(".ended")
    assert '"state":"completed"' in moved.stdout.splitlines()[-1]
    assert next(j["site"] for j in towpath.json("jobs") if j["spec"]["name"] == "clean-jfk") == there


def test_nats_client_when_it_comes_late_then_events_are_replayed_to_it(towpath: CommandLine) -> None:
    reader = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "replay_events_with_nats.py")],
        env=operator_environment(towpath),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert reader.stdout is not None
        first = next(line for line in reader.stdout if ".operation." in line)
        assert '"kind":"deploy"' in first
    finally:
        reader.kill()
        reader.wait()


def test_remove_and_down_when_done_then_nothing_is_left_and_a_second_down_is_harmless(
    towpath: CommandLine,
) -> None:
    """Last in the file: it ends the mesh."""
    (answer,) = towpath.json("remove", "hourly-jfk", "--purge")
    assert (answer["kind"], answer["state"]) == ("remove", "completed")
    assert "hourly-jfk" not in {job["spec"]["name"] for job in towpath.json("jobs")}
    stopped = towpath.json("down")["stopped"]
    assert {"coordinator", "hub", "redis"} <= set(stopped)
    assert towpath.json("down")["stopped"] == []
    assert towpath.run("jobs").returncode == 1
