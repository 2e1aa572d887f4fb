"""Give the autopilot something to foresee: announcements, and batteries whose charge is in a file."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from towpath.contracts.autopilot import AnnounceWindow
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now
from towpath.contracts.scenario_foresight import Announcement, Discharge
from towpath.lab.harness.stage import ASK_S, ATTEMPT_S, Stage

WRITE_EVERY_S = 1.0


async def announce(stage: Stage, said: Announcement) -> None:
    """Announce a window that begins and lasts so long from now on. Raises `TowpathError`."""
    begins = now() + timedelta(seconds=said.in_s)
    window = AnnounceWindow(
        site=said.site,
        cause=said.cause,
        factor=said.factor,
        begins=begins,
        ends=begins + timedelta(seconds=said.lasts_s),
        note=said.note,
    )
    await stage.bus.request(window, deadline_s=ASK_S, attempt_s=ATTEMPT_S)


async def discharge(stage: Stage, wanted: Discharge) -> None:
    """Let the charge of a site change, and return when it has. Raises `TowpathError` if it has no battery."""
    power = stage.mesh.site(wanted.site).spec.power
    if power.charge_file is None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{wanted.site} has no battery",
            field="discharge.site",
            value=wanted.site,
            allowed="a site with the setting power.charge_file",
        )
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        passed = min((loop.time() - begun) / wanted.over_s, 1.0) if wanted.over_s else 1.0
        percent = wanted.from_percent + passed * (wanted.to_percent - wanted.from_percent)
        await asyncio.to_thread(Path(power.charge_file).write_text, f"{percent:.1f}\n")
        if passed == 1.0:
            return
        await asyncio.sleep(WRITE_EVERY_S)
