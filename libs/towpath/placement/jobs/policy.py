"""The seam of policies: what a policy is, and the error when no placement is feasible."""

from __future__ import annotations

from typing import ClassVar, Protocol

from towpath.placement.jobs.view import MeshView, Placement


class NoFeasiblePlacement(ValueError):
    """No site, or no combination of sites, has what the jobs need."""

    def __init__(self, job: str, lacking: str, detail: str, proven: bool) -> None:
        super().__init__(f"there is no place for job {job!r}: {detail}")
        self.job = job
        self.lacking = lacking
        """`cores`, `memory`, `bandwidth`, `link` or `permission`."""
        self.proven = proven
        """True if there is none at all. False if the search found none."""


class Policy(Protocol):
    """A way to choose places. Its parameters are those of its constructor, with defaults."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """Its objective in one line."""

    def place(self, view: MeshView, seed: int = 0) -> Placement:
        """Return a site for each job: the same for the same view and seed.

        Raise `NoFeasiblePlacement` if there is none.
        """
        ...
