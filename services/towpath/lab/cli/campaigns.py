"""`towpath campaign`: many seeded runs of scenarios on one mesh, and what they say together."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.output import print_json, print_table, say
from towpath.cli.settings import AsJson
from towpath.lab.cli.scenarios import run_line
from towpath.lab.cli.showing import play_all

if TYPE_CHECKING:
    from towpath.lab.scenarios.campaign import Campaign
    from towpath.lab.scenarios.campaign_report import CampaignReport


def campaign(
    runs: Annotated[int, typer.Option(min=1, help="How many.")] = 60,
    seed: Annotated[int, typer.Option(help="Of everything that is left to chance.")] = 1,
    scenarios: Annotated[
        str | None, typer.Option(help="Names or files, separated by commas.", show_default="the library")
    ] = None,
    output: Annotated[Path, typer.Option(help="Where reports, journals and the mesh go.")] = Path("campaign"),
    as_json: AsJson = False,
) -> None:
    """Run scenarios again and again, each time varied by another seed, on one mesh that is brought up once.

    Writes campaign.json, campaign.md and campaign.png. Exit code 1 if a run was not as expected; its line
    says how to repeat it.

    Example: `towpath campaign --runs 20 --scenarios lossy-link,engine-killed-mid-batch`
    """
    # Here, because pandas would make every other command a second slower.
    from towpath.lab.scenarios.campaign import Campaign, chosen_scenarios, plan

    under_way = Campaign(plan(chosen_scenarios(scenarios), runs, seed), output)
    report = asyncio.run(_run(under_way, seed))
    if as_json:
        print_json(report)
    else:
        _print(report, output)
    if not report.passed:
        raise typer.Exit(1)


async def _run(under_way: Campaign, seed: int) -> CampaignReport:
    from towpath.lab.scenarios.campaign_report import CampaignReport, write_campaign

    report = await play_all(
        under_way,
        CampaignReport(seed=seed, planned=len(under_way.planned)),
        line=run_line,
        write=lambda report: write_campaign(under_way.output, report, picture=False),
    )
    await asyncio.to_thread(write_campaign, under_way.output, report, picture=True)
    return report


def _print(report: CampaignReport, output: Path) -> None:
    from towpath.lab.harness.report import in_words
    from towpath.lab.scenarios.campaign_report import by_scenario

    rows = (
        (
            row.name,
            row.runs,
            row.passed,
            row.acted,
            row.recovery_median_s,
            row.recovery_max_s,
            in_words(row.findings),
        )
        for row in by_scenario(report.runs)
    )
    columns = ("scenario", "runs", "as expected", "rules acted", "recovery, median s", "max s")
    print_table((*columns, "found by the checker"), rows, nothing="No run was finished.")
    say(f"{len(report.runs) - len(report.failed)} of {report.planned} as expected; see {output}/campaign.md")
