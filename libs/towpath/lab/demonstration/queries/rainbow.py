"""All queries that RAINBOW printed (D4.2, figures 12 to 17): on the mesh's own metrics, and on a generator's.

The figures are run as printed, with one change. Minutes are seconds, because in its first ten minutes a
window of ten minutes holds all values so far.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from towpath.checker.observation import ReceivedMessage
from towpath.lab.demonstration.queries.report import FigureReport
from towpath.lab.demonstration.queries.running_text import running_text
from towpath.lab.demonstration.queries.texts import RAINBOW, query_text
from towpath.lab.demonstration.queries.truth import AskedEvents, expected_answers
from towpath.lab.harness.answers import judge_answers, query_of
from towpath.lab.harness.load import DueEvent, send_when_due
from towpath.lab.harness.report import Judgement
from towpath.lab.harness.stage import Stage

PLANT = "jfk"
"""The site whose broker gets the generator's metrics, and whose traffic figure 17 asks for."""

FILLED = {"namespace": "towpath", "podName": "engine", "node-id": PLANT}

METRICS_TOPIC = "site/metrics"

MESH, GENERATOR = "the mesh's metrics", "a generator's"

FIGURES = {
    "avg_cpu": (12, MESH),
    "abnormal_temperature": (13, GENERATOR),
    "robot_delay_ratio": (14, GENERATOR),
    "walker_delay_ratio": (14, GENERATOR),
    "outliers": (15, GENERATOR),
    "notif": (16, GENERATOR),
    "running_cpu_util": (17, MESH),
    "sum_network_io": (17, MESH),
    "gpu_memory_load": (17, GENERATOR),
}
"""Query → its figure, and what it asks about."""

GENERATED_S, PER_SECOND = 30.0, 10


@dataclass(frozen=True)
class HeardFigures:
    """The events and the answers of the figures' queries, until a moment."""

    asked: AskedEvents
    seen: Sequence[ReceivedMessage]


async def hear_figures(stage: Stage) -> HeardFigures:
    """Run all figures as one text, and a generator for as long as windows need.

    Raises `TowpathError` if a command is refused, or answers do not come.
    """
    text = query_text(RAINBOW).replace("MINUTES", "SECONDS")
    async with running_text(stage, RAINBOW, text, FILLED) as running:
        await send_when_due(stage.mesh.site(PLANT), METRICS_TOPIC, generated())
        until = datetime.now(UTC)
        seen = await running.answers_until(until)
        asked = AskedEvents(text, FILLED, await running.events(), until)
    return HeardFigures(asked, seen)


async def judge_figures(heard: HeardFigures) -> list[FigureReport]:
    """Compare the answers with the reference's."""
    expected = await expected_answers(heard.asked)
    return [
        FigureReport(
            query=query,
            text=RAINBOW,
            figure=figure,
            on=on,
            judgement=Judgement.of(
                judge_answers(expected[query], [each for each in heard.seen if query_of(each) == query])
            ),
        )
        for query, (figure, on) in FIGURES.items()
    ]


def generated() -> Iterator[DueEvent]:
    """Metrics of a plant with two robots, a walker and a processor of graphics. The same in each run."""
    random = Random("a plant")
    for number in range(round(GENERATED_S * PER_SECOND)):
        at = number / PER_SECOND
        for entity in _measured(number, random):
            yield DueEvent(json.dumps(entity).encode(), at)


def _measured(number: int, random: Random) -> Iterator[dict[str, object]]:
    # After twenty quiet seconds the furnace gets hot.
    heat = 12.0 if number >= 20 * PER_SECOND else 0.0
    yield {"entityType": "FURNACE", "temperature": round(random.gauss(70 + heat, 0.5), 2)}
    # Few moves are far from all others.
    move = random.gauss(0, 0.2) + (4 if number % 61 == 60 else 0)
    yield {"entityType": "ROBOT", "nodeID": "arm-7", "robot_joints_moves": round(move, 3)}
    if number % 2 == 0:
        published = random.uniform(95, 100)
        yield {
            "entityType": "ROBOT",
            "nodeID": "arm-7",
            "robot_publish_rate": round(published, 1),
            "robot_deliver_rate": round(published * random.uniform(0.8, 1), 1),
        }
        yield {
            "entityType": "WALKER",
            "nodeID": "walker-1",
            "walker_publish_rate": round(published / 2, 1),
            "walker_deliver_rate": round(published * random.uniform(0.3, 0.5), 1),
        }
    if random.random() < 0.12:
        yield {"entityType": "CAMERA", "node_id": random.choice(["arm-7", "arm-8"]), "dangerous_event": 1}
    yield {"entityType": "GPU", "gpu_memory": round(random.uniform(2_000, 2_400))}
