"""Figures that one experiment takes of its run, beside those that every scenario collects."""

from __future__ import annotations

from towpath.lab.scenarios.sampler import Sampler


class RunFigures:
    """Figures of a run besides its verdicts. This one takes none."""

    async def begin(self, sampler: Sampler) -> None:
        """Is called when *during* begins, before its first step. May raise `TowpathError`."""

    async def load_ended(self, sampler: Sampler) -> None:
        """Is called when the load has ended, and no result is awaited yet. May raise `TowpathError`."""

    async def end(self, sampler: Sampler) -> None:
        """Is called when everything is judged, and nothing is put back yet. May raise `TowpathError`."""
