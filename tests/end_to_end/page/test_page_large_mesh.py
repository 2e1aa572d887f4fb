"""The page draws every change of a large mesh completely, from changes as `/live` would send them."""

from __future__ import annotations

from running.browser import large_mesh, needs_chromium

pytestmark = needs_chromium


def test_mesh_when_100_jobs_at_6_sites_change_with_all_their_samples_then_is_drawn_whole_each_time() -> None:
    changes = 15

    seen = large_mesh(changes)

    assert (seen["jobs"], seen["rows"], seen["flows"]) == (100, 100, 100)
    assert len(seen["drawn"]) == len(seen["longest"]) == changes
