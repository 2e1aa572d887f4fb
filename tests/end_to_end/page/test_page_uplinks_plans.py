"""Uplinks and plans on the live page: what each does, and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from running.browser import SEEN_MS, needs_chromium, running_browser
from running.command_line import MESH_TIMEOUT_S
from running.places import EXAMPLES
from running.whole_mesh import WholeMesh

pytestmark = [needs_chromium, pytest.mark.timeout(MESH_TIMEOUT_S)]

UPLINK = "{name: shown, site: jfk, topic: site/shown, to: cloud}"

PLAN = """
plan: shown
operations:
  - id: average
    executes: {kind: install, package: {name: average-temperature}, arguments: {publish.rate: 5}}
    placement: {devices: ["page-*"]}
rollout: {waves: [100%], roll_back: false, stop: {share: 100%}}
"""

CATALOGUE = f"""
devices: [{{id: page-1, place: {{site: jfk}}}}, {{id: page-2, place: {{site: jfk}}}}]
packages: [{{name: average-temperature, url: {EXAMPLES / "gateways/average-temperature"}}}]
"""


@contextmanager
def gateway(mesh: WholeMesh, directory: Path, name: str) -> Iterator[None]:
    """Run a gateway of the site jfk."""
    mesh.succeed("gateway", "create", name, "--site", "jfk", "--into", str(directory))
    process = mesh.start("gateway", "run", "--config", str(directory / "gateway.yaml"))
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def test_page_when_a_site_has_an_uplink_and_a_plan_then_each_is_in_a_table_as_it_stands(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    file, plan, catalogue = (tmp_path / f"{name}.yaml" for name in ("uplink", "plan", "catalogue"))
    file.write_text(UPLINK)
    plan.write_text(PLAN)
    catalogue.write_text(CATALOGUE)
    rows: list[dict[str, Any]] = shared_mesh.json("access")
    address = next(row["where"] for row in rows if "page" in row["who"])
    with running_browser() as browser, browser.new_page() as page:
        page.goto(address)
        expect(page.locator("#connection")).to_have_attribute("data-state", "live", timeout=SEEN_MS)
        expect(page.get_by_text("Uplinks", exact=True)).to_be_hidden()

        shared_mesh.succeed("uplink", "apply", str(file))
        replay = ("replay", "--site", "jfk", "--airport", "JFK", "--topic", "site/shown")
        shared_mesh.succeed(*replay, "--limit", "200")

        row = page.get_by_role("row", name="shown")
        expect(row).to_contain_text("all is forwarded", timeout=SEEN_MS)
        shared_mesh.succeed("uplink", "remove", "shown", "--purge")

        expect(page.get_by_text("Plans", exact=True)).to_be_hidden()
        with gateway(shared_mesh, tmp_path / "gateway", "page-1"):
            shared_mesh.succeed("plan", "apply", str(plan), "--catalogue", str(catalogue))
            progress = page.get_by_role("table", name="Plans", exact=True).get_by_role("row", name="shown")
            expect(progress).to_contain_text("1 queued-offline, 1 running", timeout=SEEN_MS)
            there, away = (page.get_by_role("row", name=name) for name in ("page-1", "page-2"))
            expect(there).to_contain_text("average, version 1average, version 1running")
            expect(away).to_contain_text("average, version 1nothingqueued-offline")

            shared_mesh.call("plan", "update", "shown", "average", "publish.rate=-1")
            expect(there).to_contain_text("average, version 2averagefailed", timeout=SEEN_MS)
            expect(there).to_contain_text("configure of average: 400")
            page.screenshot(path=tmp_path / "plans.png", full_page=True)
            shared_mesh.call("plan", "uninstall", "shown")
            expect(there).to_contain_text("removed", timeout=SEEN_MS)
