"""Figures of one compiler setting at one rate."""

from __future__ import annotations

from jvm import BATCH, CORES, KEEPS_UP, PROCESSED, THOUSAND, Commit, cell_figures

TEN_BATCHES = [Commit(at=100.0, batch=4, events=4_000), Commit(at=110.0, batch=14, events=14_000)]


def test_figures_when_a_job_ran_steadily_then_count_from_its_first_commit_to_its_last() -> None:
    figures = cell_figures(TEN_BATCHES, spent_s=2.0, stored_rate=1_000.0)

    assert (figures[BATCH], figures[THOUSAND]) == (200.0, 200.0)
    assert (figures[CORES], figures[PROCESSED]) == (0.2, 1_000.0)
    assert figures[KEEPS_UP] == "yes"


def test_figures_when_more_is_stored_than_processed_then_the_job_does_not_keep_up() -> None:
    figures = cell_figures(TEN_BATCHES, spent_s=20.0, stored_rate=1_200.0)

    assert figures[KEEPS_UP] == "no"
