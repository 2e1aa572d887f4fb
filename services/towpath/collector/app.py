"""The wiring of the collector."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from towpath.bus import Bus
from towpath.collector.federation import Federation, SavedSites
from towpath.collector.migrations import MigrationSamples
from towpath.collector.near_reads import NearReads
from towpath.collector.otlp import export_metrics
from towpath.collector.own_samples import HubLinks, HubProcesses, OwnSamples
from towpath.collector.placements import Placements
from towpath.collector.results import Results
from towpath.collector.rule_metrics import RuleMetrics
from towpath.collector.settings import CollectorSettings
from towpath.collector.site_questions import SILENT_AFTER_S, SiteQuestions
from towpath.collector.site_records import LOOK_S, SiteRecords
from towpath.collector.stored_values import StoredValues
from towpath.collector.traces import Traces
from towpath.collector.value_copies import ValueCopies
from towpath.contracts.live import ReadResults
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import DescribeMetrics, Echo, MetricCatalogue, QueryMetrics
from towpath.contracts.metrics_table import METRICS_TABLE
from towpath.contracts.placement import PlaceNewJobs, ProposePlacement
from towpath.contracts.reading import MayRead
from towpath.contracts.site import SiteStatus
from towpath.contracts.storage import QueryValues
from towpath.mesh.link_probe import echo
from towpath.mesh.service_process import at_hub
from towpath.tasks import end
from towpath.telemetry.intervals import INTERVAL_S, PROBE_INTERVAL_S
from towpath.telemetry.metric_store import MetricStore

log = logging.getLogger(__name__)


async def run(settings: CollectorSettings, stop: asyncio.Event) -> None:
    """Collect until `stop` is set."""
    store = MetricStore(settings.metrics)
    try:
        async with at_hub(settings, stop) as bus:
            if bus is not None:
                await _collect(settings, bus, store, stop)
    finally:
        await asyncio.to_thread(store.close)


async def _collect(settings: CollectorSettings, bus: Bus, store: MetricStore, stop: asyncio.Event) -> None:
    saved = SavedSites(settings.home)
    sites = saved.names
    questions, own = SiteQuestions(bus, sites), OwnSamples(store)
    federation, storage = Federation(questions, store), settings.storage
    records = await asyncio.to_thread(SiteRecords, settings.site_records, SILENT_AFTER_S)
    near = NearReads(store, records, storage)
    copies = ValueCopies(bus, questions, records, storage, near)
    values = StoredValues(questions, storage, records.copies_at, near.plan)
    working = [
        asyncio.create_task(work)
        for work in (
            own.measure(HubProcesses(settings.home, bus).measure, INTERVAL_S),
            own.measure(RuleMetrics(bus, sites).measure, INTERVAL_S),
            own.measure(partial(records.measure, sites), LOOK_S),
            own.measure(HubLinks(bus, sites).measure, PROBE_INTERVAL_S),
            MigrationSamples(bus, own).follow(),
            export_metrics(federation.newest),
            *([copies.keep()] if storage.enabled else []),
        )
    ]
    try:
        await bus.subscribe(SiteStatus, questions.hear)
        await bus.subscribe(SiteStatus, records.hear)
        await bus.serve(Echo, echo, site=HUB_SCOPE)
        await bus.serve(MayRead, copies.may_read, service="collector")
        await bus.serve(QueryMetrics, federation.query)
        await bus.serve(DescribeMetrics, _describe)
        await bus.serve(QueryValues, values.query)
        placements = Placements(bus, federation, saved.specs)
        await bus.serve(ProposePlacement, placements.propose)
        await bus.serve(PlaceNewJobs, placements.place_new)
        await Traces(bus, sites).serve()
        await bus.serve(ReadResults, Results(bus).read)
        log.info("collecting")
        await stop.wait()
    finally:
        await end(working)


async def _describe(_: DescribeMetrics) -> MetricCatalogue:
    return MetricCatalogue(metrics=list(METRICS_TABLE), interval_s=INTERVAL_S)
