"""Metrics of fault rules as lines: for people, for spreadsheets, for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable

from towpath.cli.connection import LOOK_ATTEMPT_S, LOOK_DEADLINE_S, open_bus
from towpath.cli.output import clock, print_json_line
from towpath.contracts.fault_commands import ListMetrics
from towpath.contracts.metrics import Metric
from towpath.mesh.home import Home
from towpath.tasks import pause

LOOK_EVERY_S = 0.5
"""Between questions for what came since."""

MOST_AT_ONCE = 10_000
"""All that the injector keeps: of what came since the last question none is passed over."""

CSV_COLUMNS = ("at", "site", "entity", "name", "value", "labels")


async def follow_metrics(
    home: Home, question: ListMetrics, *, follow: bool, as_csv: bool, as_json: bool
) -> None:
    """Print the metrics asked for, and with `follow` those that come, until stopped."""
    show = _csv_lines() if as_csv else print_json_line if as_json else _line
    async with open_bus(home) as bus:
        while True:
            found = await bus.request(question, deadline_s=LOOK_DEADLINE_S, attempt_s=LOOK_ATTEMPT_S)
            for kept in found.metrics:
                show(kept.metric)
            if not follow:
                return
            sys.stdout.flush()
            # Smaller than before: the injector has restarted, and all it has is news.
            after = 0 if found.last < question.after else found.last
            now = {"after": after, "limit": MOST_AT_ONCE}
            question = ListMetrics.model_validate(question.model_dump(exclude={"id"}) | now)
            if len(found.metrics) < question.limit:  # Else there are more.
                await pause(LOOK_EVERY_S)


def _csv_lines() -> Callable[[Metric], None]:
    writer = csv.writer(sys.stdout)
    writer.writerow(CSV_COLUMNS)

    def show(metric: Metric) -> None:
        labels = json.dumps(metric.labels, ensure_ascii=False)
        at = metric.at.isoformat()
        writer.writerow((at, metric.site, metric.entity, metric.name, metric.value, labels))

    return show


def _line(metric: Metric) -> None:
    labels = "".join(f" {name}={value}" for name, value in sorted(metric.labels.items()))
    print(f"{clock(metric.at)}  {metric.site}  {metric.entity}  {metric.name} = {metric.value:g}{labels}")
