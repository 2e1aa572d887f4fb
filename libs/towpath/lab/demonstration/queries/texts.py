"""The query texts of the demonstration, which are examples, too."""

from __future__ import annotations

from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError

SHARED, MEAN, ESTIMATED, RAINBOW = "airports", "airports-mean", "airports-estimated", "rainbow"
"""Names of the texts, and of the queries that run them."""

MOVED_QUERY = "by_site"
"""The query whose answers the picture shows, and the only one of the text `MEAN`."""


def query_text(name: str) -> str:
    """Return a text by its name. Raises `TowpathError` if it is not installed."""
    beside = Path(__file__).parent / "texts"
    repository = Path(__file__).parents[5] / "examples" / "queries"
    for folder in (beside, repository):
        path = folder / f"{name}.sight"
        if path.exists():
            return path.read_text(encoding="utf-8")
    raise TowpathError(ErrorCode.FAILED, "the query text is not installed", field="text", value=name)
