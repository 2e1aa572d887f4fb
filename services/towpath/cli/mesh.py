"""Commands for the mesh itself: start it, stop it, see how it is."""

from __future__ import annotations

import asyncio

import typer

from towpath.cli.connection import ask
from towpath.cli.output import print_json, print_table
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.commands import ListSites
from towpath.contracts.site import SiteStatus


def sites(context: typer.Context, as_json: AsJson = False) -> None:
    """List all sites: whether they are up, where devices connect, what runs there.

    Example: `towpath sites --json`
    """
    found = asyncio.run(ask(home_of(context), ListSites())).sites
    if as_json:
        return print_json(found)
    print_table(SITE_COLUMNS, [site_row(site) for site in found], nothing="no sites")


SITE_COLUMNS = ("site", "state", "MQTT", "NATS", "jobs", "memory", "note")


def site_row(site: SiteStatus) -> tuple[object, ...]:
    """A site as a row of a table."""
    memory = sum(process.memory_mb for process in site.processes)
    jobs = ", ".join(job.job for job in site.jobs) or None
    mqtt = f"{site.mqtt_host}:{site.mqtt_port}"
    return site.site, site.state, mqtt, site.nats_url, jobs, f"{memory:.0f} MB", site.error
