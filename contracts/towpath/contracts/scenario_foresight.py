"""Steps of a scenario's timeline that give the autopilot something to foresee."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.autopilot import WindowCause
from towpath.contracts.message import Model, SiteName
from towpath.contracts.scenario_load import Seconds


class Announcement(Model):
    """Announce to the autopilot that a site will be different. The run needs a mesh that has one."""

    site: SiteName
    cause: WindowCause = WindowCause.LINK
    factor: float = Field(default=1.0, ge=0, le=1000)
    in_s: Seconds = 0.0
    """So long from the step on."""
    lasts_s: Seconds = Field(gt=0)
    note: str = Field(default="", max_length=200)


class Discharge(Model):
    """Let the charge of a site's battery change evenly: in the file that its `power.charge_file` names."""

    site: SiteName
    from_percent: float = Field(ge=0, le=100)
    to_percent: float = Field(ge=0, le=100)
    over_s: Seconds
