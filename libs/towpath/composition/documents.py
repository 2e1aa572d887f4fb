"""Reads pipelines from YAML or JSON, in each of the formats that are accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.site import SiteStatus


@dataclass(frozen=True)
class ReadDocument:
    """A pipeline as it was read."""

    spec: PipelineSpec
    place: Callable[[str], str]
    """Path of a field in `spec` → its path in the document, as in `jobs[3].sink_topic`."""


def read_document(
    text: str, *, name: str | None, sites: Sequence[SiteStatus], media_type: str | None = None
) -> ReadDocument:
    """The pipeline that a document describes.

    Raises `TowpathError` (invalid) with all that is wrong in `detail.errors`.
    """
    raise NotImplementedError
