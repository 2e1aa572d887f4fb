"""Whole pages: one on a migration, one on a pipeline."""

from __future__ import annotations

from towpath.contracts.message import now
from towpath.reports import migration, pipeline
from towpath.reports.facts import MigrationFacts, PipelineFacts
from towpath.reports.page import page


def migration_page(facts: MigrationFacts) -> str:
    """The page on a migration, or on another operation."""
    view = facts.view
    sections = migration.migration_sections(facts)
    return page(migration.title(view), migration.lead(view), sections, made_at=now())


def pipeline_page(facts: PipelineFacts) -> str:
    """The page on a pipeline."""
    title = f"Pipeline {facts.view.pipeline}"
    return page(title, pipeline.lead(facts), pipeline.pipeline_sections(facts), made_at=now())
