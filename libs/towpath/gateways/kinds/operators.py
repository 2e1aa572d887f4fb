"""Applications that are a chain of light operators, in a process of a few megabytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from towpath.contracts.gateway import Manifest
from towpath.gateways.kinds.kind import Kind, register
from towpath.gateways.operators.chain import Chain
from towpath.gateways.refusal import Refusal

READY_S = 30.0
"""Time for an interpreter to start on a small device that starts others, too."""


@register("operators")
class OperatorsKind(Kind):
    """See `libs/towpath/gateways/operators`."""

    module: ClassVar[str] = "towpath.gateway.worker"

    def ready_s(self, values: Mapping[str, Any]) -> float:
        """Return the same for all."""
        return READY_S

    def check(self, manifest: Manifest, values: Mapping[str, Any]) -> None:
        """Build the operators."""
        if not manifest.operators:
            raise Refusal.bad("no operator", field="operators", allowed="at least one")
        Chain(manifest.operators, dict(values))
