"""The live page in a real browser, on a real mesh of two sites: what a user sees, and what they can do."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from running.browser import SEEN_MS, needs_chromium, new_page, running_browser
from running.command_line import MESH_TIMEOUT_S
from running.promises import promise
from running.whole_mesh import WholeMesh

pytestmark = [needs_chromium, pytest.mark.timeout(MESH_TIMEOUT_S)]

EVENTS = 1_500
NAMES = {
    "clean-jfk": "clean-page",
    "hourly-jfk": "hourly-page",
    "site/departures": "site/page",
    "departures/": "page/",
}
"""Jobs and topics of the page's own."""

MOVED_MS = 300_000

TOO_BUSY = re.compile(r"status of 50[34]")
"""A browser's word for an answer that did not come in time. The page asks again."""

expect.set_options(timeout=SEEN_MS)
VIEWS = ("Mesh", "Jobs", "Queries", "Migrations", "Actions", "Replay")

NAMED = "button, a[href], input, select, textarea, [tabindex='0']"
"""Elements that a user can operate."""

NAMELESS = """elements => elements.filter(element => {
    const labels = [...(element.labels ?? [])].map(label => label.textContent).join(" ");
    const image = element.querySelector?.("img[alt]:not([alt=''])");
    return !(element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") || labels.trim()
        || element.textContent.trim() || image);
}).map(element => element.outerHTML)"""

STATES_SEEN = """() => {
    const connection = document.getElementById("connection");
    window.seen = [];
    new MutationObserver(() => seen.push(connection.dataset.state)).observe(connection, { attributes: true });
}"""

COURSE_IN_REPLAY = """job => {
    const slider = document.querySelector("input[type=range]");
    const seen = [];
    for (let value = 0; value <= 1000; value += 2) {
        slider.value = value;
        slider.dispatchEvent(new Event("input"));
        const shown = document.querySelector(`[data-job=${job}]`)?.getAttribute("aria-label") ?? "nowhere";
        if (shown !== seen.at(-1)) seen.push(shown);
    }
    return seen;
}"""
"""Script that returns a job's sites while it scrubs through the past from begin to end."""


@pytest.fixture(scope="module")
def towpath(shared_mesh: WholeMesh) -> Iterator[WholeMesh]:
    """The shared mesh with two jobs that have something to do."""
    for name in ("clean", "window"):
        shared_mesh.deploy_example(name, NAMES)
    replay = ("replay", "--site", "jfk", "--airport", "JFK", "--topic", "site/page")
    shared_mesh.succeed(*replay, "--limit", str(EVENTS))
    yield shared_mesh
    shared_mesh.call("pipeline", "delete", "later", "--now")
    shared_mesh.remove(*(job for job in ("hourly-page", "clean-page") if shared_mesh.job(job)))


@pytest.fixture(scope="module")
def address(towpath: WholeMesh) -> str:
    """Return the page's address with its token, as `towpath access` prints it."""
    rows: list[dict[str, Any]] = towpath.json("access")
    return next(row["where"] for row in rows if "page" in row["who"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as started:
        yield started


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Open the page, logged in. In the end it may have no errors and no content from other hosts."""
    opened = new_page(browser)
    wrong: list[str] = []
    origin = address.partition("/#")[0]

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error" and not TOO_BUSY.search(message.text):
            wrong.append(message.text)

    opened.on("console", on_console)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "request", lambda request: None if request.url.startswith(origin) else wrong.append(request.url)
    )
    opened.goto(address)
    expect(opened.locator("#connection")).to_have_attribute("data-state", "live", timeout=SEEN_MS)
    yield opened
    opened.close()
    assert wrong == []


@promise("page")
def test_page_when_opened_with_the_token_then_shows_sites_and_jobs(page: Page) -> None:
    assert "token" not in page.url
    assert page.locator("h1").count() == 1
    picture = page.locator("svg.picture")
    for site in ("jfk", "cloud"):
        expect(picture.locator(f"[data-site={site}]")).to_be_visible()
    for job in ("clean-page", "hourly-page"):
        expect(picture.locator(f"[data-job={job}]")).to_be_visible()
        expect(page.get_by_role("row", name=job)).to_contain_text("running", timeout=SEEN_MS)


@promise("page")
def test_page_when_opened_without_a_token_then_asks_for_it_and_refuses_a_wrong_one(
    browser: Browser, address: str
) -> None:
    origin, _, token = address.partition("/#token=")
    with new_page(browser) as opened:
        opened.goto(origin)
        field = opened.get_by_label("Token")
        field.fill("wrong")
        opened.get_by_role("button", name="Log in").click()
        expect(opened.locator("#login-problem")).to_contain_text("not a token of this mesh")
        field.fill(token)
        opened.get_by_role("button", name="Log in").click()
        expect(opened.get_by_role("row", name="hourly-page")).to_be_visible(timeout=SEEN_MS)
        assert opened.evaluate("JSON.stringify(localStorage)").count(token) == 0


@promise("page")
@pytest.mark.parametrize("view", VIEWS)
def test_view_when_shown_then_every_control_has_a_name_and_the_place_is_marked(page: Page, view: str) -> None:
    link = page.get_by_role("navigation", name="Views").get_by_role("link", name=view)
    link.click()
    expect(link).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("main").locator("section").first).to_be_attached()
    assert page.locator(f":is({NAMED}):visible").evaluate_all(NAMELESS) == []
    assert page.locator("h1").count() == 1


@promise("page")
def test_job_when_shown_then_its_charts_code_and_results_are_there(page: Page) -> None:
    page.get_by_role("row", name="hourly-page").get_by_role("link").click()
    expect(page.get_by_role("heading", name="hourly-page")).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(4)
    expect(page.get_by_label("Specification")).to_contain_text('"kind": "window"')
    expect(page.get_by_role("region", name="Results").locator("tbody tr").first).to_contain_text(
        "mean_delay", timeout=SEEN_MS
    )


def test_job_when_it_has_a_standby_then_is_shown_with_how_far_that_is_behind(
    page: Page, towpath: WholeMesh, tmp_path: Path
) -> None:
    known = towpath.job("clean-page")
    assert known is not None
    described = tmp_path / "clean.yaml"

    described.write_text(json.dumps(known["spec"] | {"standby": {"site": "cloud", "every_s": 2}}))
    towpath.succeed("update", str(described))
    expect(page.get_by_role("row", name="clean-page")).to_contain_text(
        re.compile(r"standby cloud, .* s and .* events behind"), timeout=MOVED_MS
    )
    page.get_by_role("row", name="clean-page").get_by_role("link").click()
    expect(page.locator("dl.facts")).to_contain_text("events behind")

    described.write_text(json.dumps(known["spec"]))
    towpath.succeed("update", str(described))
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Mesh").click()
    expect(page.get_by_role("row", name="clean-page")).not_to_contain_text("standby")


def show_plan(page: Page, where: str) -> None:
    """Have the page plan a pipeline whose job keeps the delays that fulfil a condition."""
    page.get_by_role("link", name="Actions").click()
    description = {"name": "later", "jobs": [{
        "name": "late-page", "site": "jfk", "inputs": [{"site": "jfk", "topic": "page/clean"}],
        "output": {"topic": "page/late"},
        "operator": {"kind": "filter", "fields": {"delay": "double"}, "where": where},
    }]}  # fmt: skip
    page.get_by_label("Description, JSON or YAML").fill(json.dumps(description, indent=1))
    expect(page.get_by_role("button", name="Apply as planned")).to_be_disabled()
    page.get_by_role("button", name="Show the plan").click()


@promise("page")
def test_pipeline_when_applied_as_planned_then_its_job_runs(page: Page) -> None:
    show_plan(page, "delay > 15")
    plan = page.get_by_role("status", name="Plan")
    expect(plan.get_by_role("row", name="late-page")).to_contain_text("add")
    page.get_by_role("button", name="Apply as planned").click()
    expect(page.get_by_role("row", name="late-page")).to_contain_text("running", timeout=MOVED_MS)


def test_pipeline_when_its_change_is_planned_then_old_and_new_values_are_shown(page: Page) -> None:
    show_plan(page, "delay > 30")
    differing = page.get_by_role("table", name="Differences in late-page")
    expect(differing.get_by_role("row", name="operator.where")).to_contain_text('"delay > 15""delay > 30"')
    expect(page.get_by_role("button", name="Apply as planned")).to_be_enabled()


def test_fault_when_explained_loaded_and_unloaded_then_is_listed_until_unloaded(page: Page) -> None:
    page.get_by_role("link", name="Actions").click()
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("status", name="Effect of the rule")).to_contain_text("delay")
    listed = page.get_by_role("row", name="slow-operator")
    expect(listed).to_have_count(0)
    page.get_by_role("button", name="Load", exact=True).click()
    expect(listed).to_be_visible(timeout=SEEN_MS)
    page.get_by_role("button", name="Unload slow-operator").click()
    expect(listed).to_have_count(0, timeout=SEEN_MS)


@promise("page")
def test_job_when_migrated_by_the_dialog_then_prediction_comes_first_and_it_arrives(
    page: Page, tmp_path: Path
) -> None:
    page.get_by_role("button", name="Migrate hourly-page").click()
    dialog = page.get_by_role("dialog")
    confirm = dialog.get_by_role("button", name="Migrate", exact=True)
    expect(dialog.get_by_label("To site")).to_have_value("cloud")
    expect(dialog.get_by_role("status", name="Prediction")).to_contain_text("of state", timeout=SEEN_MS)
    confirm.click()
    move = page.locator(".move").filter(has_text="hourly-page")
    expect(move).to_be_visible(timeout=SEEN_MS)
    page.screenshot(path=tmp_path / "moving.png")
    expect(move).to_contain_text("completed", timeout=MOVED_MS)
    expect(page.get_by_role("row", name="hourly-page")).to_contain_text("cloud", timeout=SEEN_MS)
    page.get_by_role("link", name="hourly-page: jfk → cloud").click()
    expect(page.get_by_role("group", name="Time for each step")).to_contain_text(
        "record-owner", timeout=SEEN_MS
    )
    page.screenshot(path=tmp_path / "moved.png")


def test_replay_when_played_then_the_moment_moves_on_until_paused(page: Page) -> None:
    page.get_by_role("link", name="Replay").click()
    slider, play = page.get_by_role("slider", name="Moment"), page.locator("button[aria-pressed]")
    expect(page.get_by_text("series, from")).to_be_visible(timeout=SEEN_MS)
    slider.press("Home")
    expect(slider).to_have_value("0")
    play.click()
    expect(play).to_have_text("Pause")
    page.wait_for_function("() => Number(document.querySelector('input[type=range]').value) >= 2")
    play.click()
    expect(play).to_have_text("Play")
    paused = slider.get_attribute("aria-valuetext")
    slider.press("End")
    expect(slider).not_to_have_attribute("aria-valuetext", paused or "")
    expect(page.locator(".happenings li").first).to_be_visible()


def test_job_when_dragged_to_a_site_then_moves_there_once_confirmed(page: Page) -> None:
    expect(page.get_by_role("row", name="hourly-page")).to_contain_text("cloud", timeout=SEEN_MS)
    picture = page.locator("svg.picture")
    picture.locator("[data-job=hourly-page]").drag_to(picture.locator("[data-site=jfk] .name"))
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("To site")).to_have_value("jfk")
    dialog.get_by_role("button", name="Migrate", exact=True).click(timeout=SEEN_MS)
    expect(
        page.get_by_role("row", name="hourly-page").get_by_role("cell", name="jfk", exact=True)
    ).to_be_visible(timeout=MOVED_MS)
    expect(page.locator(".move").first).to_contain_text("completed", timeout=MOVED_MS)


def test_migrations_when_two_are_chosen_then_stand_side_by_side(page: Page) -> None:
    page.get_by_role("link", name="Migrations").click()
    expect(page.get_by_role("checkbox")).to_have_count(2, timeout=SEEN_MS)
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("link", name="Compare the two chosen").click()
    for course in ("jfk → cloud", "cloud → jfk"):
        expect(page.get_by_role("heading", name=f"hourly-page: {course}")).to_be_visible(timeout=SEEN_MS)
    expect(page.get_by_role("group", name="Time for each step")).to_have_count(2)


def test_colours_when_chosen_then_hold_over_a_reload(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Colours: as the system").click()
    page.get_by_role("button", name="Colours: light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
    assert page.evaluate(background) == dark


def test_access_when_asked_then_names_the_page(towpath: WholeMesh) -> None:
    assert "/#token=" in towpath.run("access").stdout


def test_page_when_its_service_was_killed_then_says_so_and_follows_again(
    browser: Browser, address: str, towpath: WholeMesh
) -> None:
    with new_page(browser) as opened:  # Its console may report a lost connection.
        opened.goto(address)
        expect(opened.get_by_role("row", name="hourly-page")).to_be_visible(timeout=SEEN_MS)
        opened.evaluate(STATES_SEEN)
        found = towpath.json("status")["processes"]
        os.kill(next(p["pid"] for p in found if p["name"] == "api"), signal.SIGKILL)
        opened.wait_for_function("() => seen.includes('lost') && seen.at(-1) === 'live'", timeout=SEEN_MS)
        assert towpath.run("remove", "hourly-page").returncode == 0
        expect(opened.get_by_role("row", name="hourly-page")).to_have_count(0, timeout=SEEN_MS)


def test_replay_when_a_job_has_moved_and_was_removed_then_shows_where_it_was(
    page: Page, towpath: WholeMesh
) -> None:
    assert "hourly-page" not in {job["spec"]["name"] for job in towpath.json("jobs")}
    page.get_by_role("link", name="Replay").click()
    page.get_by_role("combobox", name="Time to replay").select_option("everything kept")
    expect(page.get_by_text("series, from")).to_be_visible(timeout=SEEN_MS)
    at_jfk, at_cloud = "hourly-page at jfk", "hourly-page at cloud"
    course = page.evaluate(COURSE_IN_REPLAY, "hourly-page")
    assert course == ["nowhere", at_jfk, at_cloud, at_jfk, "nowhere"]
