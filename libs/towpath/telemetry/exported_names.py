"""Names of metrics and entities outside of Towpath: in OpenTelemetry and in Prometheus.

The Prometheus names and labels are those that an OpenTelemetry collector makes of the names, units and
attributes given here. So a dashboard works with metrics from either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from towpath.contracts.metrics_table import METRICS_BY_NAME, EntityKind, MetricDefinition, MetricKind
from towpath.telemetry.selection import RULE_PREFIX

PREFIX = "towpath."


QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}
"""Last part of a metric's name → the label or attribute `quantile`, as in summaries of Prometheus."""

_UNITS = {"s": "seconds", "By": "bytes", "1": "ratio", "By/s": "bytes_per_second", "/s": "per_second", "": ""}


@dataclass(frozen=True)
class Exported:
    """A metric under its exported name."""

    name: str
    """Name of OpenTelemetry's instrument."""
    unit: str
    """Unit as OpenTelemetry writes it. Empty for a rule's metric, which has none."""
    kind: MetricKind
    meaning: str
    labels: tuple[tuple[str, str], ...] = ()
    """Labels besides those of the entity. They are attributes in OpenTelemetry."""

    @property
    def family(self) -> str:
        """The Prometheus name. For a counter, without `_total`."""
        # Units of counted things stand in braces and repeat the name, so they are left out.
        suffix = _UNITS[re.sub(r"\{.*\}", "", self.unit)]
        return "_".join(part for part in (_identifier(self.name), suffix) if part)

    @property
    def sample(self) -> str:
        """The name that queries use."""
        return f"{self.family}_total" if self.kind is MetricKind.COUNTER else self.family


def exported(metric: str) -> Exported | None:
    """Return the exported form of a known metric, or of one that a rule measured. None for any other."""
    known = METRICS_BY_NAME.get(metric)
    if known is not None:
        return _of_table(known)
    if metric.startswith(RULE_PREFIX):
        return Exported(PREFIX + metric, "", MetricKind.GAUGE, "What a rule measured")
    return None


def _of_table(metric: MetricDefinition) -> Exported:
    name, _, last = metric.name.rpartition(".")
    if last in QUANTILES:
        meaning = metric.meaning.rpartition(": ")[0]
        labels = (("quantile", QUANTILES[last]),)
        return Exported(PREFIX + name, metric.unit, metric.kind, meaning, labels)
    return Exported(PREFIX + metric.name, metric.unit, metric.kind, metric.meaning)


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name)


def entity_labels(entity: str) -> dict[str, str]:
    """Return `job:hourly` as kind and name. A step of a migration or of a chain also has the label `step`."""
    kind, _, name = entity.partition(":")
    if kind in (EntityKind.MIGRATION, EntityKind.STEP):
        name, _, step = name.partition("/")
        return {"entity": kind, "name": name} | ({"step": step} if step else {})
    return {"entity": kind, "name": name}
