"""The REST interface against its own description: every request gets an answer that it announces."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from running.api import JOB, WAIT, Api, running_api
from running.coordinator import running_coordinator
from running.mesh import Mesh, running_mesh
from towpath.contracts.job import EXAMPLE_SPEC
from towpath.contracts.pipeline import EXAMPLE_PIPELINE
from towpath.contracts.rest_query_routes import EXAMPLE_QUERIES

pytestmark = pytest.mark.timeout(600)

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
"""All checks except those that expect every valid request to succeed: a named site may not exist."""

CONFIGURATION = """\
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]

[[operations]]
include-operation-id = "followEvents"
parameters = {{ "query.follow" = false }}

[[operations]]
include-operation-id = "followMesh"
enabled = false

[[operations]]
include-operation-id = ["showJob", "updateJob", "migrateJob"]
parameters = {{ "path.name" = "hourly-jfk" }}

[[operations]]
include-operation-id = ["showOperation", "showMigration", "abortMigration", "showTrace"]
parameters = {{ "path.id" = "{migration}" }}

[[operations]]
include-operation-id-regex = "(apply|plan|show|rollback|retry)Pipeline"
parameters = {{ "path.name" = "delays" }}

[[operations]]
include-operation-id = "showQueries"
parameters = {{ "path.name" = "asked" }}

[[operations]]
include-operation-id = "followAnswers"
parameters = {{ "path.name" = "asked", "query.follow" = false }}
"""
"""Left out: an event stream has no end, and some routes can only answer 404 here."""

MEASUREMENTS = ("--include-tag", "series", "--include-tag", "metrics", "--include-tag", "traces")

CLEAN = {
    **JOB,
    "name": "clean-jfk",
    "output": {"topic": "departures/clean"},
    "operator": {
        "kind": "clean",
        "fields": {
            "carrier": {"type": "string"},
            "delay": {"type": "double"},
            "departed_at": {"type": "timestamp"},
        },
    },
}
"""A job that writes the topic that the examples read."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as mesh:
        yield mesh


@pytest.fixture
async def api(running: Mesh) -> AsyncIterator[Api]:
    async with running_coordinator(running) as trial, running_api(trial) as started:
        yield started


async def a_job_that_moved(api: Api) -> str:
    """Deploy and migrate the job that routes need. Return the id of the migration."""
    assert (await api.send("POST", "/jobs", json=EXAMPLE_SPEC, headers=WAIT))[0] == 201
    move = {"to": "lga", "strategy": "general"}
    status, moved = await api.send("POST", "/jobs/hourly-jfk/migrations", json=move, headers=WAIT)
    assert status == 201
    return moved["operation"]


async def a_pipeline(api: Api) -> str:
    """Apply the pipeline that routes need. Return the id of its apply."""
    status, applied = await api.send("PUT", "/pipelines/delays", json=EXAMPLE_PIPELINE, headers=WAIT)
    assert status == 201
    return applied["apply"]


async def fuzzed(
    api: Api, directory: Path, known: str, *filters: str, examples: int = 8
) -> tuple[int | None, str]:
    """Run Schemathesis. Return its exit status, 0 if every answer was as described, and its report."""
    configuration = directory / "schemathesis.toml"
    configuration.write_text(CONFIGURATION.format(migration=known))
    state = api.running.state
    command = (sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run")
    process = await asyncio.create_subprocess_exec(
        *command,
        f"{state.api_url}/openapi.json",
        "--header",
        f"Authorization: Bearer {state.api_token}",
        "--checks",
        ",".join(CHECKS),
        "--max-examples",
        str(examples),
        "--seed",
        "7",
        "--request-timeout",
        "40",
        "--suppress-health-check",
        "all",
        "--no-color",
        *filters,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=directory,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 540)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output.decode(errors="replace")


async def test_jobs_when_anything_is_asked_of_them_then_answers_are_as_described(
    api: Api, tmp_path: Path
) -> None:
    await api.send("POST", "/jobs", json=CLEAN, headers=WAIT)
    # This mesh has no autopilot.
    left_out = ("--exclude-tag", "pipelines", "--exclude-tag", "queries", "--exclude-tag", "autopilot")
    others = (*left_out, *(word.replace("include", "exclude") for word in MEASUREMENTS))
    status, report = await fuzzed(api, tmp_path, await a_job_that_moved(api), *others)
    print(report)
    assert status == 0, "see the report above"


async def test_measurements_when_anything_is_asked_of_them_then_answers_are_as_described(
    api: Api, tmp_path: Path
) -> None:
    await api.send("POST", "/jobs", json=CLEAN, headers=WAIT)
    # The stand-ins for agents measure nothing: each question waits for them in vain, three seconds.
    status, report = await fuzzed(api, tmp_path, await a_job_that_moved(api), *MEASUREMENTS, examples=2)
    print(report)
    assert status == 0, "see the report above"


async def test_pipelines_when_anything_is_asked_of_them_then_answers_are_as_described(
    api: Api, tmp_path: Path
) -> None:
    await api.send("POST", "/jobs", json=CLEAN, headers=WAIT)
    status, report = await fuzzed(api, tmp_path, await a_pipeline(api), "--include-tag", "pipelines")
    print(report)
    assert status == 0, "see the report above"


async def test_queries_when_anything_is_asked_of_them_then_answers_are_as_described(
    api: Api, tmp_path: Path
) -> None:
    body = {**EXAMPLE_QUERIES, "name": "asked"}
    assert (await api.send("POST", "/queries", json=body, headers=WAIT))[0] == 201
    status, report = await fuzzed(api, tmp_path, "none", "--include-tag", "queries")
    print(report)
    assert status == 0, "see the report above"
