"""A real browser for tests of the live page, and the page's files for those that need no mesh."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from towpath.api.handlers.page import FIRST, FOLDER, TYPES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="Chromium is not installed: `make setup` as root, or install the package chromium",
)

LARGE_MESH = Path(__file__).with_name("large_mesh.js")

SEEN_MS = 120_000
"""Time limit for changes that take a second or two on an idle machine. It judges no speed."""

NOWHERE = "http://page.invalid"
"""Address of the page's files, for a browser that asks for nothing else."""


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Run Chromium within the block."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=SEEN_MS)
        yield started
        started.close()


def new_page(browser: Browser) -> Page:
    """Open a page with the size of a small screen, and time for a busy machine."""
    opened = browser.new_page(viewport={"width": 1360, "height": 900})
    opened.set_default_timeout(SEEN_MS)
    return opened


@contextmanager
def page_without_mesh(browser: Browser) -> Iterator[Page]:
    """Open the page's modules and styles, with no mesh behind them."""

    def answer(route: Route) -> None:
        name = PurePosixPath(urlsplit(route.request.url).path).name or FIRST
        path = FOLDER / name
        if not path.is_file():
            route.fulfill(status=503, content_type="application/json", body='{"detail": "no mesh"}')
            return
        route.fulfill(body=path.read_bytes(), content_type=TYPES.get(path.suffix, "text/plain"))

    page = new_page(browser)
    try:
        page.route("**/*", answer)
        page.goto(NOWHERE)
        # No one can log in here.
        page.locator("#login").evaluate("dialog => dialog.close()")
        yield page
    finally:
        page.close()


def large_mesh(changes: int) -> dict[str, Any]:
    """Show a mesh of 100 jobs at 6 sites, in which everything changes `changes` times.

    Return the numbers of jobs, rows and flows that are drawn at the end, and for each change its duration and
    the longest task that it gave the browser, in milliseconds.
    """
    with running_browser() as browser, page_without_mesh(browser) as page:
        return page.evaluate(LARGE_MESH.read_text(encoding="utf-8"), changes)
