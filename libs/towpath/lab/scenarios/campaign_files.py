"""Writes a campaign's report as JSON, Markdown and picture after each run, so an interrupted one has one."""

from __future__ import annotations

from pathlib import Path

from towpath.lab.faults.registry import faults
from towpath.lab.scenarios.campaign_report import CampaignReport, markdown
from towpath.lab.scenarios.picture import draw_campaign

JSON_FILE, MARKDOWN_FILE, PICTURE_FILE = "campaign.json", "campaign.md", "campaign.png"


def write_campaign(directory: Path, report: CampaignReport, *, picture: bool) -> None:
    """Write the report; the picture only on demand, because drawing takes a second."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / JSON_FILE).write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if picture:
        draw_campaign(directory / PICTURE_FILE, report)
    text = markdown(report, faults(), PICTURE_FILE if picture else None)
    (directory / MARKDOWN_FILE).write_text(text, encoding="utf-8")
