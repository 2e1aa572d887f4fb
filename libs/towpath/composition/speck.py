"""Read SpecK's descriptions of pipelines as Towpath's (Battulga, Miorandi, Tedeschi: "SpecK: Composition of
Stream Processing Applications over Fog Environments", DAIS 2021, Listings 1.1 and 1.2).

A document is a list `jobs`, each with these keys and no others:

- `job_name`: becomes a name in lower case with hyphens, as Towpath's names are;
- `spe_address`: the engine that runs it, as the name of a site or `host:port` of one of its servers;
- `source_broker`, `sink_broker`: sites as well, by the address of their brokers. `source_broker` may be a
  list that goes with `source_topic`;
- `source_topic`: a topic, or a list of topics. A topic that no job of the list writes is a device topic,
  under `site/`;
- `sink_topic`: a topic, or a list. Results go to the first, and a forwarding job copies them to each of
  the others;
- `entry_class`: `package.module:function`. `job_path`: the wheel, zip or directory that holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, ValidationError

from towpath.composition.addresses import AddressBook
from towpath.composition.graph import Place
from towpath.composition.violations import violations
from towpath.contracts.data_plane import DEVICE_PREFIX
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.message import Model, SiteName
from towpath.contracts.pipeline import PipelineJob
from towpath.contracts.site import SiteStatus

_MAX_NAME = 48


class SpeckJob(Model):
    """One item of SpecK's list."""

    job_name: str = Field(pattern=r"[A-Za-z0-9]")
    spe_address: str
    source_broker: str | list[str]
    sink_broker: str
    source_topic: str | list[str]
    sink_topic: str | list[str]
    entry_class: str
    job_path: str

    @property
    def source_topics(self) -> list[str]:
        """All topics that the job reads."""
        return _listed(self.source_topic)

    @property
    def sink_topics(self) -> list[str]:
        """All topics that the job writes."""
        return _listed(self.sink_topic)


KEYS = frozenset(SpeckJob.model_fields)
"""Keys that tell SpecK's jobs from Towpath's."""

_OF_FIELDS = (
    ("operator.artefact", "job_path"),
    ("operator", "entry_class"),
    ("output.site", "sink_broker"),
    ("output", "sink_topic"),
    ("name", "job_name"),
    ("site", "spe_address"),
)
"""Field of Towpath's job → SpecK's key. Inputs have positions and are handled apart."""

_JOB = re.compile(r"^jobs\[(\d+)\](?:\.(.*))?$")
_INPUT = re.compile(r"^inputs(?:\[(\d+)\])?(?:\.(\w+))?")


@dataclass
class ReadJobs:
    """Jobs read from SpecK's format, and the item that each came from."""

    jobs: list[PipelineJob] = field(default_factory=list)
    origins: list[tuple[int, str | None]] = field(default_factory=list)
    """For each job: the position of its item, and the place in the item that a copying job comes from."""
    items: Sequence[Any] = ()

    def place(self, path: str) -> str:
        """Return SpecK's path of a field, from its path in Towpath's jobs."""
        found = _JOB.match(path)
        if found is None or int(found[1]) >= len(self.origins):
            return path
        position, copied = self.origins[int(found[1])]
        return f"jobs[{position}].{copied or place_in_item(found[2] or '', self.items[position])}"


def place_in_item(path: str, item: Any) -> str:
    """Return the path in SpecK's item of a field of Towpath's job."""
    if found := _INPUT.match(path):
        key = "source_broker" if found[2] == "site" else "source_topic"
        listed = isinstance(item, dict) and isinstance(item.get(key), list)
        return f"{key}[{found[1]}]" if listed and found[1] is not None else key
    for start, key in _OF_FIELDS:
        if path == start or path.startswith((f"{start}.", f"{start}[")):
            listed = key == "sink_topic" and isinstance(item, dict) and isinstance(item.get(key), list)
            return f"{key}[0]" if listed else key
    return path or "job_name"


def read(content: Mapping[Any, Any], sites: Sequence[SiteStatus]) -> tuple[ReadJobs, list[ErrorDetail]]:
    """Return the jobs of a document in SpecK's format, and all errors in it, in its own words."""
    reader = _SpeckReader(content["jobs"], AddressBook(sites))
    errors = [
        ErrorDetail(
            code=ErrorCode.INVALID,
            message="SpecK's descriptions have no such field",
            field=str(key),
            allowed=["name", "jobs"],
        )
        for key in content
        if key not in ("name", "jobs")
    ]
    return reader.read(), [*errors, *reader.errors]


class _SpeckReader:
    """Reads one document and collects the errors."""

    def __init__(self, items: Sequence[Any], sites: AddressBook) -> None:
        self.errors: list[ErrorDetail] = []
        self._items = items
        self._sites = sites
        self._names: dict[str, str] = {}
        """Towpath's name → the name it was made from."""
        self._written: set[Place] = set()

    def read(self) -> ReadJobs:
        """Return all jobs that could be read."""
        given = {n: job for n, item in enumerate(self._items) if (job := self._item(n, item)) is not None}
        sinks = {n: self._site(job.sink_broker, f"jobs[{n}].sink_broker") for n, job in given.items()}
        self._written = {
            Place(site, topic)
            for n, site in sinks.items()
            if site is not None
            for topic in given[n].sink_topics
        }
        made, copies = ReadJobs(items=self._items), ReadJobs()
        for n, job in given.items():
            self._add(made, n, None, self._body(n, job, sinks[n]))
            for number in range(1, len(job.sink_topics)):
                self._add(copies, n, f"sink_topic[{number}]", self._copy(n, number, job, sinks[n]))
        made.jobs += copies.jobs
        made.origins += copies.origins
        return made

    def _item(self, position: int, item: Any) -> SpeckJob | None:
        try:
            job = SpeckJob.model_validate(item)
        except ValidationError as error:
            for found in violations(error, item):
                place = f"jobs[{position}]" + (f".{found.field}" if found.field else "")
                self.errors.append(found.model_copy(update={"field": place}))
            return None
        for key in ("source_topic", "sink_topic", "source_broker"):
            if getattr(job, key) == []:
                self._refuse(f"jobs[{position}].{key}", "an empty list", [], "at least one")
        return job

    def _body(self, position: int, job: SpeckJob, sink: SiteName | None) -> dict[str, Any]:
        place = f"jobs[{position}]"
        topic = next(iter(job.sink_topics), None)
        return {
            "name": self._name(job.job_name, f"{place}.job_name"),
            "site": self._site(job.spe_address, f"{place}.spe_address"),
            "inputs": self._inputs(place, job),
            "output": {"site": sink, "topic": topic},
            "operator": {"kind": "python", "entry": job.entry_class, "artefact": job.job_path},
        }

    def _copy(self, position: int, number: int, job: SpeckJob, sink: SiteName | None) -> dict[str, Any]:
        name = f"{as_name(job.job_name)[: _MAX_NAME - 7]}-copy-{number}"
        return {
            "name": self._name(name, f"jobs[{position}].job_name"),
            "site": sink,
            "inputs": [{"site": sink, "topic": job.sink_topics[0]}],
            "output": {"site": sink, "topic": job.sink_topics[number]},
            "operator": {"kind": "forward"},
        }

    def _inputs(self, place: str, job: SpeckJob) -> list[dict[str, Any]]:
        topics = job.source_topics
        if isinstance(job.source_broker, str):
            sites = [self._site(job.source_broker, f"{place}.source_broker")] * len(topics)
        elif len(job.source_broker) != len(topics):
            allowed = f"one broker, or {len(topics)}: one for each topic"
            self._refuse(f"{place}.source_broker", "brokers and topics do not pair", None, allowed)
            return []
        else:
            named = enumerate(job.source_broker)
            sites = [self._site(broker, f"{place}.source_broker[{n}]") for n, broker in named]
        return [
            {"site": site, "topic": self._topic(site, topic)}
            for site, topic in zip(sites, topics, strict=True)
            if site is not None
        ]

    def _topic(self, site: SiteName, topic: str) -> str:
        """Return a device topic unless a job writes it. One written only elsewhere is probably a mistake."""
        if topic.startswith(DEVICE_PREFIX) or any(place.topic == topic for place in self._written):
            return topic
        return f"{DEVICE_PREFIX}{topic}"

    def _name(self, name: str, place: str) -> str | None:
        made = as_name(name)
        if made in self._names:
            message = f"the name becomes {made!r}, and so does {self._names[made]}"
            self._refuse(place, message, name, "names that differ in letters and digits")
            return None
        self._names[made] = place
        return made

    def _site(self, address: str, place: str) -> SiteName | None:
        try:
            return self._sites.site(address, place)
        except TowpathError as error:
            self.errors.append(error.detail)
            return None

    def _add(self, made: ReadJobs, position: int, copied: str | None, body: dict[str, Any]) -> None:
        wrong = None in (body["name"], body["site"], body["output"]["site"], body["output"]["topic"])
        if wrong or not body["inputs"]:
            return
        try:
            made.jobs.append(PipelineJob.model_validate(body))
            made.origins.append((position, copied))
        except ValidationError as error:
            for found in violations(error, body):
                place = copied or place_in_item(found.field or "", self._items[position])
                self.errors.append(found.model_copy(update={"field": f"jobs[{position}].{place}"}))

    def _refuse(self, place: str, message: str, value: Any, allowed: str) -> None:
        self.errors.append(
            ErrorDetail(code=ErrorCode.INVALID, message=message, field=place, value=value, allowed=allowed)
        )


def as_name(text: str) -> str:
    """Return a name of Towpath's form: small letters, digits and single hyphens, beginning with a letter."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return (name if name[:1].isalpha() else f"job-{name}")[:_MAX_NAME].rstrip("-")


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
