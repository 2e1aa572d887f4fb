"""A Prometheus with the configuration of `infra/observability`, and the queries of its dashboards."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from running.places import ROOT
from running.servers import free_port
from running.waiting import until
from towpath.mesh.state import MeshState

OVERLAY = ROOT / "infra" / "observability"
DASHBOARDS = OVERLAY / "grafana" / "dashboards"
LOCAL = "/etc/prometheus/local"
"""Folder in which the overlay's container sees the files that step 2 of its README makes."""

ANSWER_S = 10.0

_LABEL_VALUES = re.compile(r"label_values\((?P<metric>\w+), (?P<label>\w+)\)")


def prometheus_binary() -> str | None:
    """Return the path of Prometheus; None if the package `prometheus` is not installed."""
    return shutil.which("prometheus", path="/usr/bin:/usr/local/bin")


def dashboard_queries() -> dict[str, str]:
    """Return dashboard, panel and letter → its query, with every variable as Grafana's *All*."""
    found: dict[str, str] = {}
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text())
        for variable in dashboard["templating"]["list"]:
            asked = _LABEL_VALUES.fullmatch(variable["query"]["query"])
            assert asked, variable
            found[f"{path.stem}: ${variable['name']}"] = f'{asked["metric"]}{{{asked["label"]}!=""}}'
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                query = re.sub(r"\$\w+", ".*", target["expr"])
                found[f"{path.stem}: {panel['title']} {target['refId']}"] = query
    return found


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def ask(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """Return the data of an answer. Raises `OSError` when there is none, such as for a wrong query."""
        query = urllib.parse.urlencode(parameters or {})
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=ANSWER_S) as answer:
            return json.load(answer)["data"]

    def series(self, query: str) -> list[Any]:
        """Return the series that a query finds now."""
        return self.ask("query", {"query": query})["result"]

    def is_up(self) -> bool:
        """True if it answers."""
        try:
            return bool(self.ask("status/buildinfo"))
        except OSError:
            return False


@contextmanager
def running_prometheus(binary: str, mesh: MeshState, directory: Path) -> Iterator[Prometheus]:
    """Run the overlay's Prometheus for a mesh as its README says, with another path instead of a mount."""
    local = directory / "local"
    local.mkdir()
    (local / "token").write_text(mesh.api_token)
    (local / "targets.json").write_text(json.dumps([{"targets": [mesh.api_url.removeprefix("http://")]}]))
    configuration = directory / "prometheus.yml"
    configuration.write_text((OVERLAY / "prometheus.yml").read_text().replace(LOCAL, str(local)))
    port = free_port()
    options = [f"--config.file={configuration}", f"--storage.tsdb.path={directory / 'data'}"]
    command = [binary, *options, f"--web.listen-address=127.0.0.1:{port}"]
    with (directory / "prometheus.log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            found = Prometheus(f"http://127.0.0.1:{port}")
            until(found.is_up)
            yield found
        finally:
            process.terminate()
