"""Queries on the live page: a mistake is seen while it is written, and answers are drawn as they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from running.browser import SEEN_MS, needs_chromium, page_without_mesh, running_browser
from running.command_line import MESH_TIMEOUT_S
from running.whole_mesh import WholeMesh

pytestmark = [needs_chromium, pytest.mark.timeout(MESH_TIMEOUT_S)]

STARTED_MS = 120_000
STREAM = """\
d = STREAM FROM topic(topic="site/drawn", time="departed_at", delay="1 HOURS", fields="carrier:string");
"""

ACCENT = {"light": (15, 118, 110), "dark": (69, 196, 181)}
"""Colour of the first line in each theme."""

DRAWN = r"""async (answers) => {
    const { AnswersPart } = await import("/page/query_answers.js");
    const text = answers.map((answer, i) => `id: ${i + 1}\ndata: ${JSON.stringify(answer)}\n\n`).join("");
    const body = () => new ReadableStream({ start: flow => flow.enqueue(new TextEncoder().encode(text)) });
    window.fetch = async () => new Response(body());
    const part = new AnswersPart("drawn");
    const frame = () => new Promise(requestAnimationFrame);
    const translucent = async () => {
        for (let frames = 0; frames < 3 || !part.element.querySelector("canvas"); frames += 1) await frame();
        const canvas = part.element.querySelector("canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const counts = new Map();
        for (let i = 0; i < data.length; i += 4) {
            const colour = data.slice(i, i + 3).join();
            if (data[i + 3] > 20 && data[i + 3] < 80) counts.set(colour, (counts.get(colour) ?? 0) + 1);
        }
        const [colour, count] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
        return { colour: colour.split(",").map(Number), share: count / (canvas.width * canvas.height) };
    };
    document.documentElement.dataset.theme = "light";
    document.getElementById("main").replaceChildren(part.element);
    const light = await translucent();
    document.documentElement.dataset.theme = "dark";
    part.repaint();
    return { light, dark: await translucent() };
}"""
"""Draws answers in both themes. Returns the most frequent translucent colour, and its share of the pixels."""


def answer(minute: int, **values: float) -> dict[str, Any]:
    end = f"2026-01-01T00:{minute:02}:00.000Z"
    return {"key": {"query": "mean"}, "window": {"start": end, "end": end}, "values": values}


def test_estimates_when_drawn_then_their_interval_is_a_band_and_is_said() -> None:
    estimates = [answer(minute, value=5.0, low=0.0, high=10.0, confidence=0.95) for minute in range(20)]

    with running_browser() as browser, page_without_mesh(browser) as page:
        drawn = page.evaluate(DRAWN, estimates)

        name = "mean: now 5 ± 5; the band is the 95 % interval; 0 marked moments"
        expect(page.get_by_role("img", name=name)).to_be_visible()
        expect(page.get_by_text("95 % interval", exact=True)).to_be_visible()
        expect(page.locator("tbody td").last).to_have_text("5 ± 5")
    for theme, accent in ACCENT.items():
        assert drawn[theme]["share"] > 0.3
        assert drawn[theme]["colour"] == pytest.approx(accent, abs=8)


def test_answers_when_they_have_no_interval_then_no_band_is_drawn() -> None:
    with running_browser() as browser, page_without_mesh(browser) as page:
        drawn = page.evaluate(DRAWN, [answer(minute, value=5.0) for minute in range(20)])

        expect(page.get_by_role("img", name="mean: now 5; 0 marked moments")).to_be_visible()
        expect(page.locator(".key.band")).to_be_hidden()
    assert max(drawn["light"]["share"], drawn["dark"]["share"]) < 0.05


def write(page: Page) -> None:
    """Write a text with a mistake, and then without it, by completion."""
    text, mistake = page.get_by_label("Query text"), page.locator("#mistake")
    text.fill(STREAM + "mean = COMPUTE AGV(delay, 1 HOURS) EVERY 1 HOURS;")
    expect(mistake).to_contain_text("Line 2, column 16: there is no function 'AGV'; did you mean 'AVG'?")
    expect(page.locator(".wrong")).to_have_text("AGV")
    expect(page.get_by_role("button", name="Run")).to_be_disabled()

    text.fill(STREAM + "mean = COMPUTE ")
    text.press("Control+End")
    text.press_sequentially("av")
    expect(page.get_by_role("option", name="AVG function")).to_have_attribute("aria-selected", "true")
    text.press("Enter")
    text.press_sequentially("delay, 1 HOURS) EVERY 1 HOURS;")
    text.press_sequentially("\nbusiest = COMPUTE TOP_K[3](carrier, 1 HOURS) EVERY 1 HOURS;")
    expect(page.get_by_text("busiest: every 3600 s")).to_be_visible()
    expect(mistake).to_have_text("")


def test_queries_when_written_and_run_then_a_mistake_is_seen_and_answers_are_drawn(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = shared_mesh.json("access")
    address = next(row["where"] for row in rows if "page" in row["who"])
    with running_browser() as browser, browser.new_page(viewport={"width": 1360, "height": 900}) as page:
        expect.set_options(timeout=SEEN_MS)
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(address)
        page.get_by_role("link", name="Queries").click()
        write(page)
        page.get_by_label("Name").fill("drawn")
        page.get_by_label("Answers at site").select_option("jfk")
        page.get_by_role("button", name="Save").click()
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_role("table", name="What is computed where")).to_contain_text(
            "series of carrier of d"
        )

        page.get_by_role("button", name="Run").click()
        running = page.get_by_role("article", name="drawn")
        expect(running).to_contain_text("running", timeout=STARTED_MS)
        replay = ("replay", "--site", "jfk", "--airport", "JFK", "--topic", "site/drawn")
        shared_mesh.succeed(*replay, "--limit", "300")

        expect(running.get_by_role("img", name="mean: now")).to_be_visible(timeout=STARTED_MS)
        expect(running.locator("canvas")).to_have_count(1)
        expect(running.locator(".lists tbody tr").first).to_be_visible()
        page.screenshot(path=tmp_path / "queries.png", full_page=True)

        page.reload()
        page.get_by_label("Saved texts").select_option("drawn")
        expect(page.get_by_label("Query text")).to_have_value(
            STREAM + text_of(shared_mesh).partition("\n")[2]
        )
        page.get_by_role("button", name="Remove drawn").click()
        expect(page.get_by_role("article")).to_have_count(0, timeout=STARTED_MS)


def text_of(mesh: WholeMesh) -> str:
    """Return the text that runs."""
    return mesh.run("query", "show", "drawn").stdout.removesuffix("\n")
