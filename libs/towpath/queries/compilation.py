"""Compile queries to a pipeline: stock operators make panes where events are, and a `query` step answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fields import FieldType
from towpath.contracts.job import Input, Output, Thinning
from towpath.contracts.message import AUTO_SITE
from towpath.contracts.operators import (
    Aggregate,
    AggregateFunction,
    Chain,
    Filter,
    Map,
    Precision,
    Query,
    Step,
    Window,
)
from towpath.contracts.pipeline import PipelineJob, PipelineSpec, PolicyName
from towpath.queries.checking import check
from towpath.queries.meaning import ALL_SITES, HERE, QuerySet, Source
from towpath.queries.parsing import parse
from towpath.queries.planning import AT, Kept, SharedPlan, is_field, shared_plan
from towpath.queries.program import WEIGHTED_PARTS, Part
from towpath.queries.tree import TimeWindow

_FUNCTIONS = {
    Part.COUNT: AggregateFunction.COUNT,
    Part.SUM: AggregateFunction.SUM,
    Part.SDEV: AggregateFunction.STDDEV,
    Part.MIN: AggregateFunction.MIN,
    Part.MAX: AggregateFunction.MAX,
    Part.SERIES: AggregateFunction.SERIES,
}

ANSWERING_S = 0.25
"""Seconds between micro-batches of the job that answers. If keys split the panes, or inputs are several, it
has one when panes come, and then one that finds them past, which would wait longer for a longer interval.
Those who ask for a sample wait longer, because to look for panes costs, too: by its share, up to a second."""

MICRO_BATCHES_OF_A_PANE = 5
SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 1.0, 10.0
"""A micro-batch costs a fifth of a core-second, however few events it has."""

_PRECISE: Mapping[str, Literal["mean", "sum", "count"]] = {"AVG": "mean", "SUM": "sum", "COUNT": "count"}

Place = tuple[str, str]
"""Site and topic."""


@dataclass(frozen=True)
class Asked:
    """A query text, and where it is asked."""

    name: str
    """Of the pipeline, of its last job, and of the topic of answers: `queries/<name>`."""
    site: str
    """Where answers are published."""
    text: str
    filled: Mapping[str, str]
    """Name → the text in place of `{name}`."""
    sites: Sequence[str]
    """All sites of the mesh, for streams of all of them."""
    trigger_s: float | None = None
    """Seconds between micro-batches of events; None: a fifth of a pane, see `interval_s`."""
    webhook: str | None = None
    """Address to which each answer is POSTed, too."""

    @property
    def topic(self) -> str:
        """The topic of answers."""
        return f"queries/{self.name}"


@dataclass(frozen=True)
class SitePlan:
    """The part of a plan that a site with events computes."""

    site: str
    topics: tuple[str, ...]
    plan: SharedPlan


@dataclass(frozen=True)
class Compiled:
    """A query text as jobs, and what they share."""

    asked: Asked
    meaning: QuerySet
    sites: tuple[SitePlan, ...]
    pipeline: PipelineSpec


def compiled(asked: Asked) -> Compiled:
    """Return the pipeline that answers queries.

    Each site with events makes panes of them, which are few and small. The site that asks makes answers of
    panes. That takes a job of its own also where events and answers are at one site: it has little to do, and
    would cost more as a step that runs with every micro-batch of events. With a scheduler it runs where that
    policy finds its place, and its answers are still at the site that asks.
    Raises `TowpathError` with the place in the text.
    """
    meaning = check(parse(asked.text), asked.filled)
    sources = meaning.used
    if not sources:
        raise TowpathError(ErrorCode.INVALID, "there is no query in the text", allowed="name = COMPUTE …")
    places = sorted({place for source in sources for place in _places(source, asked)})
    plans = tuple(
        _site_plan(site, tuple(topic for at, topic in places if at == site), meaning, sources, asked)
        for site in dict.fromkeys(site for site, _ in places)
    )
    try:
        jobs = _jobs(asked, meaning, plans)
        policy = PolicyName(meaning.scheduler or PolicyName.PERFORMANCE)
        return Compiled(asked, meaning, plans, PipelineSpec(name=asked.name, jobs=jobs, policy=policy))
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error


def _site_plan(
    site: str, topics: tuple[str, ...], meaning: QuerySet, sources: Sequence[Source], asked: Asked
) -> SitePlan:
    positions = {
        source.name: [topics.index(topic) for at, topic in _places(source, asked) if at == site]
        for source in sources
    }
    return SitePlan(site, topics, shared_plan(meaning, positions, [site] * len(topics)))


def interval_s(asked: Asked, plan: SharedPlan, sample: float) -> float:
    """Return the seconds between micro-batches of events. Answers come so much later at most.

    Who asks for a `sample` wants to save, and most of the cost is that of micro-batches: so they are rarer by
    its share, down to one a pane.
    """
    if asked.trigger_s is not None:
        return asked.trigger_s
    pane_s = plan.program.pane_micros / 1e6
    share = min(pane_s / MICRO_BATCHES_OF_A_PANE / sample, pane_s)
    return min(max(share, SHORTEST_INTERVAL_S), LONGEST_INTERVAL_S)


def _sample(meaning: QuerySet) -> float:
    """Return the share of the events that the queries need: what one reads, the others read, too."""
    return max(query.options.sample or 1.0 for query in meaning.queries if query.reads_streams)


def _jobs(asked: Asked, meaning: QuerySet, plans: Sequence[SitePlan]) -> list[PipelineJob]:
    """Return a job of panes for each site, and the job that answers."""
    panes = [
        PipelineJob(
            name=f"{asked.name}-{at.site}",
            site=at.site,
            inputs=_inputs(at, meaning),
            output=Output(topic=f"{asked.topic}/panes"),
            operator=Chain(steps=pane_steps(at.plan, meaning)),
            trigger_s=interval_s(asked, at.plan, _sample(meaning)),
        )
        for at in plans
    ]
    answers = PipelineJob(
        name=asked.name,
        site=AUTO_SITE if meaning.scheduler else asked.site,
        inputs=[Input(site=at.site, topic=f"{asked.topic}/panes") for at in plans],
        output=Output(topic=asked.topic, site=asked.site if meaning.scheduler else None),
        operator=Query(text=asked.text, filled={**asked.filled}),
        trigger_s=min(ANSWERING_S / _sample(meaning), SHORTEST_INTERVAL_S),
        webhook=asked.webhook,
    )
    return [*panes, answers]


def _inputs(at: SitePlan, meaning: QuerySet) -> list[Input]:
    """Return the topics of a site. No more is read than the queries need."""
    sample = _sample(meaning)
    return [
        Input(
            site=at.site,
            topic=topic,
            start="latest",
            sample=sample if sample < 1 else None,
            thinning=_thinning(at.plan, meaning) if meaning.is_thinned else None,
        )
        for topic in at.topics
    ]


def _thinning(plan: SharedPlan, meaning: QuerySet) -> Thinning:
    """Return what may be left out: all queries are content with estimates."""
    strata = {
        grouping.fields[0]: key.column
        for query, program in zip(meaning.queries, plan.program.queries, strict=True)
        for grouping, key in zip(query.by, program.by, strict=True)
        if query.options.max_error is not None and is_field(grouping)
    }
    salience = [query.options.salience for query in meaning.queries if query.reads_streams]
    known = [each for each in salience if each is not None]
    return Thinning(strata=strata, salience=max(known) if len(known) == len(salience) else None)


def pane_steps(plan: SharedPlan, meaning: QuerySet) -> list[Step]:
    """Return the steps that make panes of events."""
    choosing = Filter(name="choosing", fields=meaning.types, where=plan.where) if plan.where else None
    return [
        # Weights are those of the job's inputs, which its first step reads.
        *([choosing] if choosing and not meaning.is_thinned else []),
        Map(name="values", fields=meaning.types, select={**plan.select}),
        Window(
            name="panes",
            fields={name: _type(name, plan) for name in plan.select},
            size_s=plan.program.pane_micros / 1e6,
            event_time=AT,
            watermark_s=plan.delay_micros / 1e6,
            key=[*plan.keys],
            aggregates={one.name: _aggregate(one) for one in plan.kept},
            punctuates=True,
            precision=_precision(plan),
        ),
    ]


def _aggregate(kept: Kept) -> Aggregate:
    if kept.part in WEIGHTED_PARTS:
        # Estimates need no exact sums.
        return Aggregate(function=AggregateFunction.TOTAL, field=kept.name)
    return Aggregate(function=_FUNCTIONS[kept.part], field=kept.argument)


def _precision(plan: SharedPlan) -> list[Precision]:
    """Return what shares of events must suffice for. Each function of a query has its part of the error."""
    found = []
    for query in plan.program.queries:
        if query.options.max_error is None or query.options.confidence is None:
            continue
        count = len(query.uses)
        for use in query.uses:
            assert isinstance(use.window, TimeWindow)
            column = query.columns[use.arguments[0]]
            of = _PRECISE[use.function]
            is_count = of == "count"
            found.append(
                Precision(
                    of=of,
                    weight=Kept(column, Part.WEIGHT).name,
                    sum=None if is_count else Kept(column, Part.WEIGHTED).name,
                    squares=None if is_count else Kept(column, Part.SQUARES).name,
                    max_error=query.options.max_error / count,
                    confidence=1 - (1 - query.options.confidence) / count,
                    windows=use.window.micros // plan.program.pane_micros,
                    key=[key.column for key in query.by],
                )
            )
    return found


def _type(name: str, plan: SharedPlan) -> FieldType:
    if name == AT:
        return FieldType.TIMESTAMP
    return FieldType.STRING if name in plan.keys else plan.types.get(name, FieldType.DOUBLE)


def _places(source: Source, asked: Asked) -> list[Place]:
    """Return the inputs of a stream."""
    sites = [
        site
        for named in source.sites
        for site in (asked.sites if named == ALL_SITES else [asked.site if named == HERE else named])
    ]
    return [(site, source.topic) for site in dict.fromkeys(sites)]
