"""Uplinks on the live page: what each does, and what waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from running.browser import needs_chromium, running_browser
from running.command_line import MESH_TIMEOUT_S
from running.whole_mesh import WholeMesh

pytestmark = [needs_chromium, pytest.mark.timeout(MESH_TIMEOUT_S)]

SEEN_MS = 30_000
"""Samples are taken every two seconds, and shown at once."""

UPLINK = "{name: shown, site: jfk, topic: site/shown, to: cloud}"


def test_page_when_a_site_has_an_uplink_then_its_figures_are_in_a_table(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    file = tmp_path / "uplink.yaml"
    file.write_text(UPLINK)
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
