"""The live page in a real browser, on a real mesh of two sites: what a user sees, and what they can do."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from test_cli_mesh import EXAMPLES, START_S, CommandLine

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="Chromium is not installed: `make setup` as root, or install the package chromium",
)

EVENTS = 1_500
SEEN_MS = 30_000
"""For what the page is told within a second or two, on a machine with other work."""

MOVED_MS = 120_000
VIEWS = ("Mesh", "Jobs", "Migrations", "Actions", "Replay")

NAMED = "button, a[href], input, select, textarea, [tabindex='0']"
"""What one can operate."""

NAMELESS = """elements => elements.filter(element => {
    const labels = [...(element.labels ?? [])].map(label => label.textContent).join(" ");
    const image = element.querySelector?.("img[alt]:not([alt=''])");
    return !(element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") || labels.trim()
        || element.textContent.trim() || image);
}).map(element => element.outerHTML)"""

LARGE_MESH = Path(__file__).with_name("large_mesh.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def towpath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A mesh with two jobs that have something to do."""
    line = CommandLine(tmp_path_factory.mktemp("mesh"))
    try:
        started = line.run("up", "--sites", "jfk,cloud", "--within", "180", within_s=START_S)
        assert started.returncode == 0, started.stderr
        for name in ("clean", "window"):
            assert line.run("deploy", str(EXAMPLES / f"{name}.yaml")).returncode == 0
        assert line.run("replay", "--site", "jfk", "--airport", "JFK", "--limit", str(EVENTS)).returncode == 0
        yield line
    finally:
        line.run("down", within_s=30)


@pytest.fixture(scope="module")
def address(towpath: CommandLine) -> str:
    """The page with its token, as `towpath access` prints it."""
    rows: list[dict[str, Any]] = towpath.json("access")
    return next(row["where"] for row in rows if "page" in row["who"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page, logged in. In the end nothing may have gone wrong in it, nor anything come from elsewhere."""
    opened = browser.new_page(viewport={"width": 1360, "height": 900})
    wrong: list[str] = []
    origin = address.partition("/#")[0]
    opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "request", lambda request: None if request.url.startswith(origin) else wrong.append(request.url)
    )
    opened.goto(address)
    expect(opened.locator("#connection")).to_have_attribute("data-state", "live", timeout=SEEN_MS)
    yield opened
    opened.close()
    assert wrong == []


def test_page_when_opened_with_the_token_then_shows_sites_and_jobs(page: Page) -> None:
    assert "token" not in page.url
    assert page.locator("h1").count() == 1
    picture = page.locator("svg.picture")
    for site in ("jfk", "cloud"):
        expect(picture.locator(f"[data-site={site}]")).to_be_visible()
    for job in ("clean-jfk", "hourly-jfk"):
        expect(picture.locator(f"[data-job={job}]")).to_be_visible()
        expect(page.get_by_role("row", name=job)).to_contain_text("running", timeout=SEEN_MS)


def test_page_when_opened_without_a_token_then_asks_for_it_and_refuses_a_wrong_one(
    browser: Browser, address: str
) -> None:
    origin, _, token = address.partition("/#token=")
    with browser.new_page() as opened:
        opened.goto(origin)
        field = opened.get_by_label("Token")
        field.fill("wrong")
        opened.get_by_role("button", name="Log in").click()
        expect(opened.locator("#login-problem")).to_contain_text("not the token of this mesh")
        field.fill(token)
        opened.get_by_role("button", name="Log in").click()
        expect(opened.get_by_role("row", name="hourly-jfk")).to_be_visible(timeout=SEEN_MS)
        assert opened.evaluate("JSON.stringify(localStorage)").count(token) == 0


@pytest.mark.parametrize("view", VIEWS)
def test_view_when_shown_then_every_control_has_a_name_and_the_place_is_marked(page: Page, view: str) -> None:
    link = page.get_by_role("navigation", name="Views").get_by_role("link", name=view)
    link.click()
    expect(link).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("main").locator("section").first).to_be_attached()
    assert page.locator(f":is({NAMED}):visible").evaluate_all(NAMELESS) == []
    assert page.locator("h1").count() == 1


def test_job_when_shown_then_its_charts_code_and_results_are_there(page: Page) -> None:
    page.get_by_role("row", name="hourly-jfk").get_by_role("link").click()
    expect(page.get_by_role("heading", name="hourly-jfk")).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(4)
    expect(page.get_by_label("Specification")).to_contain_text('"kind": "window"')
    expect(page.get_by_role("region", name="Results").locator("tbody tr").first).to_contain_text(
        "mean_delay", timeout=SEEN_MS
    )


def test_pipeline_when_planned_then_shows_what_would_change_and_can_be_applied(page: Page) -> None:
    page.get_by_role("link", name="Actions").click()
    description = {"name": "later", "jobs": [{
        "name": "late-jfk", "site": "jfk", "inputs": [{"site": "jfk", "topic": "departures/clean"}],
        "output": {"topic": "departures/late"},
        "operator": {"kind": "filter", "fields": {"delay": "double"}, "where": "delay > 15"},
    }]}  # fmt: skip
    page.get_by_label("Description, JSON or YAML").fill(json.dumps(description, indent=1))
    apply = page.get_by_role("button", name="Apply as planned")
    expect(apply).to_be_disabled()
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("status", name="Plan").get_by_role("row", name="late-jfk")).to_contain_text("add")
    expect(apply).to_be_enabled()


def test_fault_when_explained_then_says_what_the_rule_would_do(page: Page) -> None:
    page.get_by_role("link", name="Actions").click()
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("status", name="What the rule would do")).to_contain_text("delay")


def test_job_when_migrated_by_the_dialog_then_prediction_comes_first_and_it_arrives(
    page: Page, tmp_path: Path
) -> None:
    page.get_by_role("button", name="Migrate hourly-jfk").click()
    dialog = page.get_by_role("dialog")
    confirm = dialog.get_by_role("button", name="Migrate", exact=True)
    expect(dialog.get_by_label("To site")).to_have_value("cloud")
    expect(dialog.get_by_role("status", name="Prediction")).to_contain_text("of state", timeout=SEEN_MS)
    confirm.click()
    expect(page.locator(".move")).to_be_visible(timeout=SEEN_MS)
    page.screenshot(path=tmp_path / "moving.png")
    expect(page.locator(".move")).to_contain_text("completed", timeout=MOVED_MS)
    expect(page.get_by_role("row", name="hourly-jfk")).to_contain_text("cloud", timeout=SEEN_MS)
    page.get_by_role("link", name="hourly-jfk: jfk → cloud").click()
    expect(page.get_by_role("group", name="Time for each step")).to_contain_text(
        "record-owner", timeout=SEEN_MS
    )
    page.screenshot(path=tmp_path / "moved.png")


def test_replay_when_scrubbed_back_then_the_job_is_where_it_was(page: Page, towpath: CommandLine) -> None:
    begun = next(o for o in towpath.json("migrations") if o["job"] == "hourly-jfk")["begun_at"]
    found = page.evaluate(
        """async begun => {
            const [{ keptEvents }, { stateAt }, { look }] = await Promise.all(
                [import("/page/live.js"), import("/page/past.js"), import("/page/api.js")]);
            const events = await keptEvents();
            const jobs = new Map((await look("/jobs")).jobs.map(job => [job.spec.name, job]));
            const place = at => stateAt(events, jobs, ["jfk", "cloud"], at).places.get("hourly-jfk");
            return [place(Date.parse(begun) / 1000 - 0.001), place(Date.now() / 1000)];
        }""",
        begun,
    )
    assert found == ["jfk", "cloud"]


def test_mesh_when_it_has_100_jobs_at_6_sites_then_all_are_drawn(
    page: Page, record_property: Any, tmp_path: Path
) -> None:
    drawn = page.evaluate(LARGE_MESH)
    page.screenshot(path=tmp_path / "large.png")
    record_property("large_mesh", json.dumps(drawn))
    print(f"100 jobs at 6 sites: {drawn}")
    assert (drawn["jobs"], drawn["rows"], drawn["flows"]) == (100, 100, 100)


def test_access_when_asked_then_names_the_page(towpath: CommandLine) -> None:
    assert "/#token=" in towpath.run("access").stdout
