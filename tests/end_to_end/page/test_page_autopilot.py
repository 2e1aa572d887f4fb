"""The autopilot on the live page: windows ahead, and decisions that people approve."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from running.browser import SEEN_MS, needs_chromium, page_without_mesh, running_browser
from running.command_line import MESH_TIMEOUT_S, START_S
from running.waiting import until
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.bus.announcements import Announcements
from towpath.contracts.autopilot import (
    AutopilotMode,
    DecidedMove,
    Decision,
    DecisionChanged,
    DecisionState,
    Expectation,
    SiteWindow,
    WindowCause,
    WindowChanged,
)
from towpath.contracts.live import LiveAutopilot
from towpath.contracts.message import Event, now

pytestmark = [needs_chromium, pytest.mark.timeout(MESH_TIMEOUT_S)]

MOVED_MS = 120_000

JOB = "clean-piloted"
NAMES = {"clean-jfk": JOB, "site/departures": "site/piloted", "departures/": "piloted/"}
"""The job and the topics of this test."""

PROPOSING = '{mode = "propose", interval_s = 3600}'
"""It looks once an hour, so it has no opinion on the decision of this test."""

REASON = "jfk has no link from 00:10:00 to 00:12:00"

DRAWN = """async ({changes, events, proposal}) => {
    const [{ MeshModel }, { viewOf }, { MeshPicture }] = await Promise.all(
        ["mesh_model", "mesh", "picture"].map(name => import(`/page/${name}.js`)));
    const [model, picture] = [new MeshModel(), new MeshPicture("the mesh")];
    for (const content of changes) model.take("snapshot", content);
    for (const content of events) model.take("happened", content);
    picture.show(viewOf(model, proposal));
    const titles = kind => [...picture.element.querySelectorAll(`.${kind} title`)];
    const texts = kind => titles(kind).map(title => title.textContent);
    return { wishes: texts("wish"), signs: texts("sign") };
}"""
"""Script that draws what it is told, and returns what tooltips say of moves and sites."""


def decision(state: DecisionState, target: str = "cloud", name: str = "shown") -> Decision:
    late, none = (Expectation(late_s=late_s, joules=0.0, link_bytes=0.0) for late_s in (240.0, 0.0))
    return Decision(
        decision=name,
        decided=now(),
        state=state,
        reason=REASON,
        rule="jobs rest after a move" if state is DecisionState.HELD else "",
        moves=[DecidedMove(job=JOB, origin="jfk", target=target)],
        horizon_s=600.0,
        staying=late,
        moving=none,
        gain_s=240.0,
        cost_s=5.0,
    )


def announce(mesh: WholeMesh, event: Event) -> None:
    """Publish an event with the rights of the autopilot."""
    login = mesh.state.login("autopilot")

    async def publish() -> None:
        async with await Bus.connect(mesh.state.hub_url, login.user, login.password, name="test") as bus:
            await Announcements(bus).publish(event)

    with ThreadPoolExecutor(1) as thread:  # The browser has an event loop in this one.
        thread.submit(asyncio.run, publish()).result()


@pytest.fixture
def towpath(shared_mesh: WholeMesh, tmp_path: Path) -> Iterator[WholeMesh]:
    """The shared mesh with a job. In the end its autopilot is off, as it was."""
    shared_mesh.deploy_example("clean", NAMES)
    yield shared_mesh
    set_autopilot(shared_mesh, tmp_path, '{mode = "off"}')
    shared_mesh.remove(JOB)


def set_autopilot(mesh: WholeMesh, directory: Path, autopilot: str) -> None:
    settings = directory / "towpath.toml"
    settings.write_text(f'autopilot = {autopilot}\nsites = [{{name = "jfk"}}, {{name = "cloud"}}]\n')
    ended = mesh.run("up", "--config", str(settings), within_s=START_S)
    assert ended.returncode == 0, ended.stderr


def announce_window(page: Page, note: str) -> None:
    """Announce a window for the site cloud by the page's form, at the times that it suggests."""
    page.get_by_text("Announce a window").click()
    form = page.get_by_role("region", name="Autopilot").locator("form")
    form.get_by_label("Site").select_option("cloud")
    form.get_by_label("Note").fill(note)
    form.get_by_role("button", name="Announce").click()


def test_decision_when_proposed_then_is_shown_with_its_reason_and_its_job_moves_once_approved(
    towpath: WholeMesh, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = towpath.json("access")
    address = next(row["where"] for row in rows if "page" in row["who"])
    with running_browser() as browser, browser.new_page(viewport={"width": 1360, "height": 900}) as page:
        page.goto(address)
        part, picture = page.get_by_role("region", name="Autopilot"), page.locator("svg.picture")
        expect(part).to_contain_text("`towpath up --autopilot propose` switches it on", timeout=SEEN_MS)

        set_autopilot(towpath, tmp_path, PROPOSING)
        expect(part).to_contain_text("It asks people before it moves jobs.", timeout=SEEN_MS)
        announce_window(page, "mast")
        sign = picture.locator("[data-sign=cloud]")
        expect(sign).to_contain_text("mast", timeout=SEEN_MS)
        page.get_by_role("button", name="Withdraw the window of cloud").click()
        expect(sign).to_have_count(0, timeout=SEEN_MS)

        announce(towpath, DecisionChanged(decision="shown", now=decision(DecisionState.PROPOSED)))
        row = part.get_by_role("row", name=JOB)
        expect(row).to_contain_text(f"proposed{JOB}: jfk → cloud{REASON}4 min 0 s0 ms", timeout=SEEN_MS)
        expect(picture.locator(f"[data-wish={JOB}]")).to_contain_text(REASON)
        page.screenshot(path=tmp_path / "proposed.png", full_page=True)

        # The next autopilot has read the decision from the hub's events, as if its own process had made it.
        os.kill(towpath.pids()["autopilot"], signal.SIGKILL)
        until(lambda: towpath.json("decisions"))
        row.get_by_role("button", name="Approve").click()
        expect(picture.locator(f"[data-job={JOB}].moving")).to_be_visible(timeout=SEEN_MS)
        page.screenshot(path=tmp_path / "moving.png", full_page=True)
        expect(row).to_contain_text("done", timeout=MOVED_MS)
        expect(picture.locator(f"[data-wish={JOB}]")).to_have_count(0)
        expect(row.get_by_role("button")).to_have_count(0)

        places = page.get_by_role("region", name="Places")
        places.get_by_label("By the policy").select_option("baseline")
        places.get_by_role("button", name="Propose").click()
        expect(places.get_by_role("row", name="now")).to_contain_text(" W", timeout=SEEN_MS)
        expect(places.get_by_role("row", name="baseline")).to_be_visible()
        page.screenshot(path=tmp_path / "done.png", full_page=True)


def test_picture_when_moves_are_wanted_and_windows_ahead_then_has_arrows_and_signs_with_the_reason() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    site = {"state": "up", "processes": [], "error": None}
    job = {"spec": {"name": JOB}, "site": "jfk", "state": "running", "inputs": [], "output": {}}
    settings = LiveAutopilot(mode=AutopilotMode.PROPOSE, policy="performance", latency_s=5.0, horizon_s=600.0)
    told = {
        "at": begin.isoformat(),
        "sites": dict.fromkeys(("cloud", "jfk", "lga"), site),
        "jobs": {JOB: job},
        "autopilot": {"hub": settings.model_dump(mode="json")},
        "decisions": {"over": decision(DecisionState.REFUSED, "lga", "over").model_dump(mode="json")},
    }

    def window(name: str, begins_s: float, **more: Any) -> Event:
        begins = begin + timedelta(seconds=begins_s)
        ahead = SiteWindow(
            window=name, site=name, cause=WindowCause.LINK, begins=begins, ends=begins + timedelta(minutes=2)
        )
        return WindowChanged(window=name, now=ahead, **more)

    events = [
        DecisionChanged(decision="shown", now=decision(DecisionState.HELD)),
        window("cloud", 590),
        window("jfk", 610),
        window("lga", 10),
        window("lga", 10, withdrawn=True),
    ]
    happened = [
        {"serial": serial, "subject": each.to_subject(), "body": each.model_dump(mode="json")}
        for serial, each in enumerate(events)
    ]
    proposal = {"policy": "energy", "jobs": [{"job": JOB, "current": "jfk", "proposed": "lga"}]}
    with running_browser() as browser, page_without_mesh(browser) as page:
        drawn = page.evaluate(DRAWN, {"changes": [told], "events": happened, "proposal": proposal})

    assert drawn["wishes"] == [
        f"{JOB}: jfk → lga, as the policy energy proposes",
        f"{JOB}: jfk → cloud, held: {REASON} (held: jobs rest after a move)",
    ]
    assert [sign.partition(" from")[0] for sign in drawn["signs"]] == ["cloud: without a link"]
