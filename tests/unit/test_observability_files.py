"""Files for Prometheus, Grafana and the OpenTelemetry collector: readable, about metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from towpath.contracts.metrics import Series
from towpath.contracts.metrics_table import METRICS_TABLE, EntityKind
from towpath.contracts.rest_routes import ROUTES
from towpath.telemetry.exposition import exposition

ROOT = Path(__file__).parents[2] / "infra" / "observability"
DASHBOARDS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
AT = 1_000_000.0


def parsed(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def exposed() -> dict[str, set[str]]:
    """Name of each sample that the exposition can have → its labels."""
    series = [
        Series(site="jfk", entity=_entity(m.entity, m.name), metric=m.name, unit=m.unit, points=[(AT, 1.0)])
        for m in METRICS_TABLE
    ]
    found: dict[str, set[str]] = {}
    for line in exposition(series, AT).decode().splitlines():
        if not line.startswith("#"):
            name, _, labels = line.partition("{")
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def _entity(kind: EntityKind, metric: str) -> str:
    if kind is EntityKind.SITE:
        return kind
    return f"{kind}:a/pause" if metric == "migration.step.duration" else f"{kind}:a"


def expressions(dashboard: Path) -> list[str]:
    content = json.loads(dashboard.read_text())
    asked = [target["expr"] for panel in content["panels"] for target in panel["targets"]]
    return asked + [variable["query"]["query"] for variable in content["templating"]["list"]]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboard_when_it_asks_for_a_metric_then_the_mesh_exposes_it(
    dashboard: Path,
) -> None:
    known = exposed()
    for expression in expressions(dashboard):
        for name, labels in re.findall(r"(towpath_\w+)(?:\{([^}]*)\})?", expression):
            assert name in known, f"{dashboard.name}: {name}"
            assert set(re.findall(r"(\w+)\s*=~?", labels)) <= known[name], expression


def test_judgement_when_a_dashboard_asks_for_what_is_not_there_then_would_be_seen() -> None:
    assert "towpath_job_evnts_total" not in exposed()
    assert {"site", "entity", "name", "quantile"} == exposed()["towpath_job_latency_end_to_end_seconds"]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboard_when_read_then_its_panels_and_sources_are_there(dashboard: Path) -> None:
    content = json.loads(dashboard.read_text())
    sources = {each["uid"] for each in parsed("grafana/provisioning/datasources/towpath.yaml")["datasources"]}
    numbers = [panel["id"] for panel in content["panels"]]
    assert len(set(numbers)) == len(numbers) > 0
    assert {panel["datasource"]["uid"] for panel in content["panels"]} <= sources
    assert all(panel["title"] and panel["description"] for panel in content["panels"])


def test_prometheus_when_configured_then_asks_a_path_of_the_interface_with_a_token() -> None:
    [job] = parsed("prometheus.yml")["scrape_configs"]
    assert job["metrics_path"] in {route.path for route in ROUTES if not route.public}
    assert job["authorization"]["credentials_file"]


def test_collector_when_configured_then_its_pipelines_use_what_is_defined() -> None:
    content = parsed("otel-collector.yaml")
    for pipeline in content["service"]["pipelines"].values():
        for part in ("receivers", "processors", "exporters"):
            assert set(pipeline[part]) <= set(content[part])


def test_compose_file_when_it_mounts_a_file_then_that_is_there() -> None:
    services = parsed("compose.yaml")["services"]
    assert set(services) == {"otel-collector", "jaeger", "prometheus", "grafana"}
    mounted = [mount.split(":")[0] for service in services.values() for mount in service.get("volumes", ())]
    for source in mounted:
        # `local` holds the token and is made by its owner; a name without a slash is a volume.
        if source.startswith("./") and source != "./local":
            assert (ROOT / source).exists(), source
