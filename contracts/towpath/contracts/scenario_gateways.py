"""Gateways of a scenario, and versions of what they run."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.message import Model, SiteName
from towpath.contracts.scenario_load import Seconds


class ScenarioGateways(Model):
    """Simulated gateways at a site. They need a mesh of the run's own.

    Before the timeline, a plan rolls version 1 of an application out to them.
    """

    site: SiteName
    count: int = Field(default=8, ge=2, le=100)


class RollOut(Model):
    """Apply the gateways' plan with another version of the application, in two waves.

    The command is repeated until all gateways run it.
    """

    version: int = Field(ge=1, le=99)
    within_s: Seconds = 180.0
