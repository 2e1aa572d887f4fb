"""An edge node alone: one event for each report, with a rolling mean and CUSUM per sensor.

The load is that of IRONEDGE (Algorithms 2023, 16(2), 123): reports of 150 bytes of seven sensors, at 1,000 to
14,000 a second. They sent 100,000 reports, for 8 s at 12,000/s. Here the load lasts.
"""

from __future__ import annotations

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from flow import AFTERWARDS, DRAIN_S, LOST, MEDIAN, latencies, load_and_drain, warm
from measured_mesh import MeasuredMesh
from verdicts import passed

from towpath.contracts.fields import FieldType
from towpath.contracts.prediction import Cusum, Predict, Rolling, RollingAggregate, RollingFunction
from towpath.contracts.site import BrokerKind, BrokerSpec, SiteSpec

SENSORS = 7
RATES = (1_000, 2_000, 5_000, 8_000, 12_000, 14_000)
OUT = "events/s"

NODE = SiteSpec(name="node")
BRIDGED = SiteSpec(name="bridged", broker=BrokerSpec(kind=BrokerKind.MOSQUITTO))
"""As their slower way: reports pass through a broker of their own, and a bridge, before they are stored."""

TARGETS = {
    5_000: {MEDIAN: Target(at_most=0.15), LOST: Target(at_most=0)},
    14_000: {
        MEDIAN: Target(at_most=0.25),
        OUT: Target(at_least=13_900),
        LOST: Target(at_most=0),
    },
}

THEIRS = (
    "theirs, on 4 cores, direct (K1-NC): 0 lost up to 12,000/s, 1.45 % at 14,000/s; mean latency 20 ms at "
    "1,000/s, 275 ms at 8,000/s; 4,610 events/s out at 12,000/s, 4,146 at 14,000/s",
    "theirs through a bridge (K0-WC): 16.3 % lost at 2,000/s, 54.9 % at 4,000/s, 90.6 % at 14,000/s; "
    "mean latency 52 ms at 1,000/s, 55 s at 14,000/s",
)


def watching() -> Predict:
    """Return the operator: one event per report, with the state of a model of its sensor."""
    mean = RollingAggregate(function=RollingFunction.AVG, field="value")
    return Predict(
        fields={"sensor": FieldType.STRING, "value": FieldType.DOUBLE},
        key=["sensor"],
        rolling=Rolling(size_s=5, aggregates={"level": mean}),
        model=Cusum(kind="cusum", of="level"),
    )


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure the node at rising rates, then the same with a broker and a bridge in front."""
    assert mesh is not None
    measured.notes += [
        *THEIRS,
        "latency: stored in OUT less stored in IN, both by the server's clock; load and node share the cores",
    ]
    seconds = {Scale.QUICK: 8.0, Scale.DEFAULT: 60.0, Scale.FULL: 600.0}[scale]
    for rate in (5_000,) if scale is Scale.QUICK else RATES:
        say(f"one event per report at {rate:,}/s")
        await _measure(mesh, NODE, rate, seconds, measured)
    for rate in (1_000,) if scale is Scale.QUICK else (1_000, 5_000, 14_000):
        say(f"the same through a bridge at {rate:,}/s")
        await _measure(mesh, BRIDGED, rate, min(seconds, 60.0), measured)


async def _measure(mesh: MeasuredMesh, site: SiteSpec, rate: int, seconds: float, measured: Measured) -> None:
    start = await mesh.last_serial(site.name)
    job = await mesh.job("edge", site.name, watching(), after=start, trigger_s=0.0)
    await warm(mesh, job)
    after = await mesh.last_serial(site.name)
    behind_s, drain_s = await load_and_drain(mesh, job, rate, seconds, sensors=SENSORS)
    through = await mesh.last_serial(site.name)
    await mesh.counted(job, through - start, DRAIN_S)  # What has not arrived by then is lost.
    verdict = await passed(mesh, job, start, through, measured_after=after)
    await mesh.remove(job)
    figures: dict[str, Value] = {
        OUT: rounded((through - after) / (seconds + drain_s), 0),
        **latencies(verdict),
        LOST: verdict.lost,
        "repeated": verdict.duplicated,
        "reports": verdict.expected,
        "load behind, s": rounded(behind_s, 2),
        AFTERWARDS: rounded(drain_s, 1),
    }
    targets = TARGETS.get(rate, {}) if site is NODE else {}
    name = f"{site.name} {rate:,}/s, {seconds:.0f} s"
    measured.cases.append(Case(name, figures, targets, verdict.lost + verdict.duplicated))


BENCHMARK = Benchmark(
    "edge",
    "an edge node alone: MQTT → rolling mean → CUSUM → events",
    (NODE, BRIDGED),
    measure,
    on_request=True,
)
