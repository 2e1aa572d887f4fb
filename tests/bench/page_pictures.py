"""Take a picture of the live page while a job moves: `python tests/bench/page_pictures.py [picture.png]`.

The program starts a mesh of three sites in a directory of its own, applies the pipeline of the examples,
replays departures, and moves hourly-jfk by the page's own dialog.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
PIPELINE = ROOT / "examples/pipelines/delays-1.yaml"
PICTURE = ROOT / "demo/page.png"

JOB = "hourly-jfk"
MOMENT = "ship-checkpoint"
"""When this step is done, the job is about half way."""

EVENTS_PER_S = 300
SEEN_MS = 120_000
STEP_S = 300.0


def towpath(home: Path, *arguments: str) -> str:
    """Run a command. Return what it prints. Raises `CalledProcessError`."""
    command = [sys.executable, "-m", "towpath.cli", "--home", str(home), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=STEP_S).stdout


@contextmanager
def running_mesh(home: Path) -> Iterator[str]:
    """Run a mesh with a busy pipeline. Yield the address of its page."""
    try:
        towpath(home, "up", "--sites", "jfk,lga,cloud", "--within", "240")
        towpath(home, "pipeline", "apply", str(PIPELINE))
        replay = ["replay", "--site", "jfk", "--airport", "JFK", "--rate", str(EVENTS_PER_S)]
        devices = subprocess.Popen([sys.executable, "-m", "towpath.cli", "--home", str(home), *replay])
        try:
            rows = json.loads(towpath(home, "access", "--json"))
            yield next(row["where"] for row in rows if "page" in row["who"])
        finally:
            devices.terminate()
            devices.wait(timeout=10)
    finally:
        towpath(home, "down")


def open_page(browser: Browser, address: str) -> Page:
    """Open the page, and wait until it shows data."""
    page = browser.new_page(viewport={"width": 1360, "height": 860}, device_scale_factor=1.5)
    page.goto(address)
    expect(page.locator(".flow.flowing").nth(2)).to_be_attached(timeout=SEEN_MS)
    return page


def picture_of_a_move(page: Page, picture: Path) -> None:
    """Move the job, and take the picture meanwhile."""
    page.get_by_role("button", name=f"Migrate {JOB}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To site").select_option("cloud")
    dialog.get_by_label("Strategy").select_option("handover")
    dialog.get_by_role("button", name="Migrate", exact=True).click(timeout=SEEN_MS)
    done = page.locator(".steps li[data-phase=confirmed]", has_text=MOMENT)
    expect(done).to_be_visible(timeout=SEEN_MS)
    page.screenshot(path=picture)
    expect(page.locator(".move")).to_contain_text("completed", timeout=SEEN_MS)


def main() -> None:
    """Take the picture."""
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("chromium is missing: run `make setup`")
    with (
        tempfile.TemporaryDirectory() as home,
        running_mesh(Path(home)) as address,
        sync_playwright() as playwright,
    ):
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        picture_of_a_move(open_page(browser, address), picture)
        browser.close()
    print(f"wrote {picture}")


if __name__ == "__main__":
    main()
