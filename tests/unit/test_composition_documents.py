"""Descriptions of pipelines as texts: their contents, and the errors of wrong ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from towpath.composition.documents import names_addresses, read_document
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.operators import Forward, Python
from towpath.contracts.pipeline import PolicyName
from towpath.contracts.site import SiteState, SiteStatus

OWN = """\
name: delays
jobs:
  - name: clean
    site: jfk
    inputs: [{site: jfk, topic: site/departures}]
    output: {topic: departures/clean}
    operator: {kind: clean, fields: {id: {type: long}}}
  - name: late
    site: jfk
    inputs: [{site: jfk, topic: departures/clean}]
    output: {topic: departures/late}
    operator: {kind: filter, fields: {id: long}, where: id > 3}
"""

SPECK = {
    "job_name": "Road Traffic_1",
    "spe_address": "edge",
    "source_broker": "10.0.0.1:1883",
    "sink_broker": "cloud",
    "source_topic": "traffic",
    "sink_topic": "clean",
    "entry_class": "road.jobs:clean",
    "job_path": "code/road.whl",
}


def site(name: str, host: str, nats: int, mqtt: int) -> SiteStatus:
    url = f"nats://{host}:{nats}"
    return SiteStatus(site=name, state=SiteState.UP, nats_url=url, mqtt_host=host, mqtt_port=mqtt)


SITES = [
    site("edge", "10.0.0.1", 4222, 1883),
    site("barn", "10.0.0.1", 4223, 1884),
    site("cloud", "10.0.0.9", 4222, 1883),
    site("here", "127.0.0.1", 4222, 1883),
]


def speck(*items: dict[str, Any]) -> str:
    return json.dumps({"jobs": [{**SPECK, **item} for item in items]})


def errors(text: str, name: str | None = None, media_type: str | None = None) -> list[ErrorDetail]:
    with pytest.raises(TowpathError) as refused:
        read_document(text, name=name, sites=SITES, media_type=media_type)
    return refused.value.detail.errors or [refused.value.detail]


def places(text: str, name: str | None = None) -> list[str | None]:
    return [error.field for error in errors(text, name)]


def test_document_when_ours_then_its_places_are_those_of_the_pipeline() -> None:
    read = read_document(OWN, name=None, sites=())
    assert (read.spec.name, [job.name for job in read.spec.jobs]) == ("delays", ["clean", "late"])
    assert read.place("jobs[1].inputs[0].topic") == "jobs[1].inputs[0].topic"


def test_document_when_it_names_a_policy_then_new_jobs_are_placed_by_it_and_a_wrong_one_is_refused() -> None:
    assert read_document(OWN, name=None, sites=()).spec.policy is PolicyName.PERFORMANCE
    assert read_document(f"{OWN}policy: energy\n", name=None, sites=()).spec.policy is PolicyName.ENERGY
    assert places(f"{OWN}policy: enrgy\n") == ["policy"]


@pytest.mark.parametrize("media_type", [None, "application/json"])
def test_document_when_json_then_is_read_like_yaml(media_type: str | None) -> None:
    own = read_document(OWN, name=None, sites=())
    text = own.spec.model_dump_json(indent=2).replace("  ", "\t")
    assert read_document(text, name=None, sites=(), media_type=media_type).spec == own.spec


def test_document_when_it_has_no_name_then_is_called_as_said() -> None:
    text = OWN.removeprefix("name: delays\n")
    assert read_document(text, name="x", sites=()).spec.name == "x"
    assert read_document(text, name=None, sites=(), otherwise="y").spec.name == "y"
    assert read_document(OWN, name=None, sites=(), otherwise="y").spec.name == "delays"
    assert places(text) == ["name"]
    assert places(OWN, "other") == ["name"]
    assert places(OWN.replace("delays", "The Delays")) == ["name"]
    assert places(text, "The Delays") == ["name"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [1, 2\njobs: 3\n", "line 2, column 5"),
        (OWN + "name: again\n", "line 13, column 1"),
        (OWN.replace("site: jfk\n", "site: jfk\n    site: lga\n", 1), "line 5, column 5"),
        ('{"name": "a",\n "jobs": [],\n "jobs": []}', "line 3, column 2"),
        ('{"name": "a",\n\t"jobs": [],\n\t"jobs": []}', "line 3, column 2"),
        (f"{OWN}---\n{OWN}", "2 documents"),
        ("", "documents"),
        ("- a\n", "not a mapping"),
        ("name: a\n", "no `jobs`"),
        ("jobs: &a [*a]\n", "inside itself"),
        ("name: a\njobs: [{x: .inf}]\n", "finite"),
        pytest.param("{" * 5000, "not YAML", id="thousands of brackets"),
        ("name: a\njobs: [2026-99-99]\n", "not YAML"),
        ("\x00", "not YAML"),
    ],
)
def test_document_when_it_is_none_then_says_where_and_why(text: str, said: str) -> None:
    (error,) = errors(text)
    assert error.code is ErrorCode.INVALID
    assert said in error.message


def test_document_when_said_to_be_json_then_braces_of_yaml_are_refused() -> None:
    text = "{name: a,\n jobs: []}"
    assert read_document(text, name=None, sites=()).spec.jobs == []
    (error,) = errors(text, media_type="application/json")
    assert "line 1, column 2" in error.message


def test_document_when_a_few_lines_stand_for_billions_then_is_refused_at_once() -> None:
    lines = ["name: a", "l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    (error,) = errors("\n".join([*lines, "jobs: *l11"]))
    assert "too many values" in error.message


def test_document_when_much_is_wrong_then_all_is_told_in_its_own_paths() -> None:
    text = (
        OWN.replace("type: long", "type: lnog")
        .replace("kind: filter", "kind: fliter")
        .replace("topic: site/departures", "topic: site/departures, start: soon")
        .replace("    output: {topic: departures/late}\n", "    strategy: fast\n    priority: 3\n")
    )
    found = errors(text)
    assert [(error.code, error.field) for error in found] == [
        (ErrorCode.INVALID, "jobs[0].inputs[0].start"),
        (ErrorCode.INVALID, "jobs[0].operator.fields.id.type"),
        (ErrorCode.INVALID, "jobs[1].output"),
        (ErrorCode.UNKNOWN_OPERATOR, "jobs[1].operator.kind"),
        (ErrorCode.INVALID, "jobs[1].strategy"),
        (ErrorCode.INVALID, "jobs[1].priority"),
    ]
    assert (found[0].value, found[3].value) == ("soon", "fliter")
    assert "'long'" in str(found[1].allowed)
    assert "'handover'" in str(found[4].allowed)


def test_document_when_two_jobs_have_one_name_then_the_second_is_told() -> None:
    assert places(OWN.replace("name: late", "name: clean")) == ["jobs[1].name"]


def test_speck_when_read_then_addresses_are_sites_and_unwritten_topics_are_of_devices() -> None:
    first = {"job_name": "A"}
    second = {"job_name": "B2", "source_broker": "10.0.0.9:1883", "source_topic": "clean", "sink_topic": "b"}
    text = speck(first, second)
    assert names_addresses(text)
    assert not names_addresses(OWN)
    read = read_document(text, name="road", sites=SITES)
    one, two = read.spec.jobs
    assert (one.name, one.site, one.inputs[0].name) == ("a", "edge", "edge/site/traffic")
    assert (one.output.site, one.output.topic) == ("cloud", "clean")
    assert isinstance(one.operator, Python)
    assert (one.operator.entry, one.operator.artefact) == ("road.jobs:clean", "code/road.whl")
    assert (two.name, two.inputs[0].name) == ("b2", "cloud/clean")


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("edge", "edge"),
        ("10.0.0.1:4222", "edge"),
        ("10.0.0.1:1884", "barn"),
        ("nats://10.0.0.1:4223", "barn"),
        ("tcp://10.0.0.9:1883/", "cloud"),
        ("10.0.0.9", "cloud"),
        ("spark://10.0.0.9:7077", "cloud"),
        ("cloud:9999", "cloud"),
        ("localhost:1883", "here"),
    ],
)
def test_speck_when_an_address_is_given_then_is_the_site_that_has_it(address: str, found: str) -> None:
    read = read_document(speck({"spe_address": address}), name="road", sites=SITES)
    assert read.spec.jobs[0].site == found


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.1:7077", "10.0.0.7:1883", "mars", "", "a:b:c"])
@pytest.mark.parametrize("key", ["spe_address", "source_broker", "sink_broker"])
def test_speck_when_no_one_site_has_the_address_then_is_told_with_all_that_there_are(
    key: str, address: str
) -> None:
    (error,) = errors(speck({key: address}), "road")
    assert (error.code, error.field, error.value) == (ErrorCode.UNKNOWN_SITE, f"jobs[0].{key}", address)
    assert error.allowed is not None
    assert {"edge", "10.0.0.1:1884 (barn)"} <= set(error.allowed)


def test_speck_when_a_topic_is_written_at_another_site_only_then_is_no_device_topic() -> None:
    read = read_document(speck({}, {"job_name": "b", "source_topic": "clean"}), name="road", sites=SITES)
    assert read.spec.jobs[1].inputs[0].name == "edge/clean"


def test_speck_when_it_lists_topics_then_all_are_read_and_copies_are_written() -> None:
    item = {
        "source_topic": ["traffic", "site/weather"],
        "source_broker": ["edge", "barn"],
        "sink_topic": ["clean", "copy", "archive"],
    }
    read = read_document(speck(item), name="road", sites=SITES)
    main, *copies = read.spec.jobs
    assert [i.name for i in main.inputs] == ["edge/site/traffic", "barn/site/weather"]
    assert [(c.site, c.inputs[0].name, c.output.topic) for c in copies] == [
        ("cloud", "cloud/clean", "copy"),
        ("cloud", "cloud/clean", "archive"),
    ]
    assert all(isinstance(c.operator, Forward) for c in copies)
    assert read.place("jobs[2].output.topic") == "jobs[0].sink_topic[2]"
    assert read.place("jobs[0].inputs[1].topic") == "jobs[0].source_topic[1]"
    assert read.place("jobs[0].inputs[1].site") == "jobs[0].source_broker[1]"


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("name", "job_name"),
        ("site", "spe_address"),
        ("inputs[0].topic", "source_topic"),
        ("inputs[0]", "source_topic"),
        ("inputs[0].site", "source_broker"),
        ("output.topic", "sink_topic"),
        ("output.dead_letter", "sink_topic"),
        ("output.site", "sink_broker"),
        ("operator.entry", "entry_class"),
        ("operator", "entry_class"),
        ("operator.artefact", "job_path"),
    ],
)
def test_speck_when_a_field_of_the_pipeline_is_wrong_then_its_place_is_specks_key(
    field: str, place: str
) -> None:
    read = read_document(speck({"job_name": "a"}, {"job_name": "b"}), name="road", sites=SITES)
    assert read.place(f"jobs[1].{field}") == f"jobs[1].{place}"
    assert read.place("name") == "name"


def test_speck_when_much_is_wrong_then_all_is_told_by_its_own_keys() -> None:
    text = speck(
        {"job_name": "Road.Traffic"},
        {"job_name": "road-traffic", "spe_address": "mars"},
        {"job_name": "c", "sink_topic": "a.b", "entry_class": "nothing"},
        {"job_name": "d", "source_topic": 7, "speed": 3},
        {"job_name": "e", "source_topic": ["x", "y"], "source_broker": ["edge"]},
        {"job_name": "f", "sink_topic": []},
        {"job_name": "g", "sink_topic": ["g1", "g 2"]},
    )
    assert sorted(place or "" for place in places(text, "road")) == [
        "jobs[1].job_name",
        "jobs[1].spe_address",
        "jobs[2].entry_class",
        "jobs[2].sink_topic",
        "jobs[3].source_topic",
        "jobs[3].speed",
        "jobs[4].source_broker",
        "jobs[5].sink_topic",
        "jobs[6].sink_topic[1]",
    ]


def test_speck_when_keys_are_missing_then_each_is_told() -> None:
    text = json.dumps({"jobs": [{"job_name": "a", "spe_address": "edge"}, "b"], "version": 2})
    assert set(places(text, "road")) == {
        "version",
        "jobs[1]",
        *(f"jobs[0].{key}" for key in SPECK if key not in ("job_name", "spe_address")),
    }
