"""The binders of all kinds of engines."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.contracts.site import EngineKind, EngineSpec
from towpath.engines.binder import EngineBinder
from towpath.engines.spark.binder import SparkEngine

BINDERS: Mapping[EngineKind, EngineBinder] = {
    EngineKind.SPARK: SparkEngine(),
}


def engine_binder(spec: EngineSpec) -> EngineBinder:
    """Return the binder of a site's engine."""
    return BINDERS[spec.kind]
