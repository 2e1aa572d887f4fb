"""Values of probes: rates of jobs without an expected rate, and old metrics."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.contracts.metrics import Metric
from towpath.contracts.scenario import MetricProbe, StandbyProbe, ThroughputProbe
from towpath.contracts.standby import StandbyList, StandbyView
from towpath.lab.scenarios import sampler as sampling
from towpath.lab.scenarios.probes import measure
from towpath.lab.scenarios.sampler import Sampler, SerialsAt

NOW = 1000.0
JOB: Any = SimpleNamespace(view=SimpleNamespace(inputs=[SimpleNamespace(site="jfk", stream="IN")]))


def rising(by: int) -> deque[SerialsAt]:
    """Return serial numbers that grow by this much each second, until now."""
    return deque(SerialsAt(NOW - 5 + second, by * second) for second in range(6))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Sampler:
    monkeypatch.setattr(sampling, "time", SimpleNamespace(time=lambda: NOW))
    found = Sampler(None, None)  # type: ignore[arg-type]
    found.jobs["hourly"] = JOB
    return found


THROUGHPUT = ThroughputProbe(job="hourly", within_percent=20)


@pytest.mark.parametrize(
    ("processed", "stored", "inside"), [(100, 100, True), (50, 100, False), (100, 0, False)]
)
async def test_throughput_when_the_scenario_sends_nothing_then_is_told_against_what_was_stored(
    seen: Sampler, processed: int, stored: int, inside: bool
) -> None:
    seen._progress["hourly"] = rising(processed)
    seen._stored["jfk", "IN"] = rising(stored)
    [found] = await measure([THROUGHPUT], seen)
    assert (found.value, found.inside) == (100 * processed / stored if stored else None, inside)


async def test_throughput_when_it_is_not_known_what_was_stored_then_nothing_is_measured(
    seen: Sampler,
) -> None:
    seen._progress["hourly"] = rising(100)
    [found] = await measure([THROUGHPUT], seen)
    assert (found.value, found.inside) == (None, False)


async def test_metric_when_no_one_sent_it_for_too_long_then_is_outside_its_tolerance(
    seen: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = {
        "at": "2026-01-01T00:00:00Z",
        "site": "jfk",
        "entity": "hourly",
        "name": "batch_s",
        "value": 1.0,
    }
    await seen._on_metric(Metric.model_validate(sent))
    probe = MetricProbe(name="batch_s", at_most=2.0, max_age_s=15)
    assert [found.inside for found in await measure([probe], seen)] == [True]
    monkeypatch.setattr(sampling, "time", SimpleNamespace(time=lambda: NOW + 16))
    [found] = await measure([probe], seen)
    assert (found.value, found.inside) == (None, False)


@pytest.mark.parametrize(
    ("site", "behind_s", "inside"),
    [("jfk", 2.0, True), ("jfk", 9.0, False), ("jfk", None, False), ("cloud", None, True)],
)
async def test_copy_when_it_is_old_or_missing_then_is_outside_its_tolerance_unless_the_job_is_there(
    seen: Sampler, site: str, behind_s: float | None, inside: bool
) -> None:
    view = StandbyView(job="hourly", site=site, standby="cloud", every_s=1, behind_s=behind_s)

    async def request(*_: Any, **__: Any) -> StandbyList:
        return StandbyList(standbys=[view])

    seen.bus = SimpleNamespace(request=request)  # type: ignore[assignment]
    [found] = await measure([StandbyProbe(job="hourly", at_most_s=5)], seen)
    assert found.inside is inside
