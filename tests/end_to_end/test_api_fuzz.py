"""The REST interface against its own description: whatever is asked, the answer is one it announces."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from running_api import Api, running_api
from running_mesh import Mesh, running_mesh
from test_api import JOB, WAIT

from towpath.contracts.commands import EXAMPLE_SPEC

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
"""All but those that suppose that whatever fits the schema succeeds: a site that is named may not exist."""

CONFIGURATION = """\
[[operations]]
include-operation-id = "followEvents"
parameters = {{ "query.follow" = false }}

[[operations]]
include-operation-id = ["showJob", "updateJob", "migrateJob"]
parameters = {{ "path.name" = "hourly-jfk" }}

[[operations]]
include-operation-id = ["showOperation", "showMigration", "abortMigration"]
parameters = {{ "path.id" = "{migration}" }}

[[operations]]
include-operation-id-regex = "(show|rollback|retry)Pipeline"
parameters = {{ "path.name" = "delays" }}
"""
"""An event stream that is followed has no end; and what is never there answers 404 only."""

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
"""Writes what the examples read."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as mesh:
        yield mesh


@pytest.fixture
async def api(running: Mesh) -> AsyncIterator[Api]:
    async with running_api(running) as started:
        yield started


async def something_there(api: Api) -> str:
    """Jobs that routes can be about; returns the id of a migration."""
    for job in (CLEAN, EXAMPLE_SPEC):
        assert (await api.send("POST", "/jobs", json=job, headers=WAIT))[0] == 201
    status, moved = await api.send(
        "POST", "/jobs/hourly-jfk/migrations", json={"to": "lga", "strategy": "general"}, headers=WAIT
    )
    assert status == 201
    return moved["operation"]


async def fuzzed(api: Api, directory: Path, *filters: str) -> tuple[int | None, str]:
    """Exit status and report of Schemathesis: 0 when every answer was as described."""
    configuration = directory / "schemathesis.toml"
    configuration.write_text(CONFIGURATION.format(migration=await something_there(api)))
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
        "8",
        "--seed",
        "7",
        "--request-timeout",
        "10",
        "--suppress-health-check",
        "all",
        "--no-color",
        *filters,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=directory,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 240)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output.decode(errors="replace")


@pytest.mark.parametrize(
    "filters",
    [("--exclude-tag", "pipelines"), ("--include-tag", "pipelines")],
    ids=["jobs, migrations, events", "pipelines"],
)
async def test_answers_when_anything_is_asked_then_are_as_described(
    api: Api, tmp_path: Path, filters: tuple[str, ...]
) -> None:
    status, report = await fuzzed(api, tmp_path, *filters)
    print(report)
    assert status == 0, "see the report above"
