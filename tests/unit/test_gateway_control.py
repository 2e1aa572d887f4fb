"""The control protocol of gateways: topics, payloads, and answers that are remembered."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from towpath.contracts.gateway import Code, InstallPackage, Manifest, Presence, Reply, Request
from towpath.gateway.app import VERSION
from towpath.gateways import control
from towpath.gateways.control import Address
from towpath.gateways.refusal import Refusal
from towpath.gateways.request_journal import KEPT, RequestJournal

UPDATE = Address("cbn", "pi01", "CONF-V1", "PUT", "configurations/app-01")
THESIS_BODY = (
    '<ns2:properties><ns2:property type="Integer" array="false" name="publish.rate">'
    "<ns2:value>10</ns2:value></ns2:property></ns2:properties>"
)


def test_topic_when_an_application_is_updated_then_is_that_of_the_thesis() -> None:
    assert UPDATE.topic == "$EDC/cbn/pi01/CONF-V1/PUT/configurations/app-01"
    assert control.reply_topic("cbn", "client-01", "CONF-V1", "request-01") == (
        "$EDC/cbn/client-01/CONF-V1/REPLY/request-01"
    )


@pytest.mark.parametrize(
    ("topic", "field"),
    [
        ("site/pi01", "topic"),
        ("$EDC/cbn/pi01/CONF-V1/PUT", "topic"),
        ("$EDC/cbn/pi01/CONF-V9/PUT/configurations", "application"),
        ("$EDC/cbn/pi01/CONF-V1/POST/configurations", "verb"),
        ("$EDC/cbn/pi 1/CONF-V1/PUT/configurations", "device"),
        ("$EDC/cbn/pi01/CONF-V1/PUT/configurations/", "resource"),
    ],
)
def test_address_when_a_topic_is_no_request_then_names_the_field(topic: str, field: str) -> None:
    with pytest.raises(Refusal) as refused:
        control.parse_address(topic)
    assert (refused.value.code, refused.value.problems[0].field) == (400, field)


def test_request_when_its_body_is_the_xml_of_the_thesis_then_has_the_properties() -> None:
    payload = json.dumps({"request_ID": "request-01", "requester_ID": "client-01", "body": THESIS_BODY})
    request = control.decode_request(UPDATE, payload.encode())
    assert request == Request("request-01", "client-01", {"properties": {"publish.rate": 10}})


@pytest.mark.parametrize(
    "body",
    [
        "<ns2:properties>",
        "<configuration/>",
        '<!DOCTYPE x [<!ENTITY a "b">]><properties/>',
        THESIS_BODY.replace("Integer", "Complex"),
        THESIS_BODY.replace(">10<", ">ten<"),
        THESIS_BODY.replace("<ns2:value>10</ns2:value>", ""),
    ],
)
def test_request_when_its_xml_is_wrong_then_is_refused(body: str) -> None:
    payload = json.dumps({"request_ID": "r", "requester_ID": "c", "body": body}).encode()
    with pytest.raises(Refusal) as refused:
        control.decode_request(UPDATE, payload)
    assert refused.value.code is Code.BAD_REQUEST


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b'{"requester_ID":"c"}', b'{"request_ID":"a/b","requester_ID":"c"}']
)
def test_request_when_its_payload_is_wrong_then_is_refused(payload: bytes) -> None:
    with pytest.raises(Refusal):
        control.decode_request(UPDATE, payload)


def test_body_when_a_field_is_missing_then_says_which_are_allowed() -> None:
    with pytest.raises(Refusal) as refused:
        control.body_as({"name": "a", "version": "1"}, InstallPackage)
    (problem,) = refused.value.problems
    assert "url" in problem.message
    assert str(problem.allowed).startswith("name, url, sha256; optional: version, signature")


def test_topics_when_told_apart_then_each_has_one_kind() -> None:
    topics = [
        control.reply_topic("a", "c", "CONF-V1", "r"),
        control.notify_topic("a", "c", "DEPLOY-V2", "pi01", "packages/install"),
        control.presence_topic("a", "pi01"),
    ]
    kinds = [control.is_reply, control.is_notification, control.is_presence]
    assert [[kind(topic) for kind in kinds] for topic in topics] == [
        [n == m for m in range(3)] for n in range(3)
    ]


def test_messages_when_encoded_then_have_the_names_of_the_thesis() -> None:
    assert json.loads(control.encode(Request("r", "c"))) == {"request_ID": "r", "requester_ID": "c"}
    assert control.decode(control.encode(Reply(200, "r", "pi01")), Reply).response_code == 200
    assert control.decode(control.encode(Presence("pi01", True, "s")), Presence).online


def test_manifest_when_a_field_is_unknown_then_is_refused() -> None:
    with pytest.raises(Refusal):
        control.body_as({"name": "a", "unknown": 1}, Manifest)


def test_journal_when_reopened_then_knows_answers_and_what_was_begun(tmp_path: Path) -> None:
    journal = RequestJournal(tmp_path)
    answered = journal.begin(UPDATE, Request("first", "c", {"properties": {}}))
    journal.answer(answered, 200, {"rate": 5})
    journal.begin(UPDATE, Request("second", "c"))

    again = RequestJournal(tmp_path)

    known = again.known(UPDATE, Request("first", "other", {"properties": {}}))
    assert known is not None
    assert (known.code, known.body) == (200, {"rate": 5})
    assert [entry.request.request_id for entry in again.unanswered()] == ["second"]
    assert again.begin(UPDATE, Request("third", "c")).number == 3


def test_journal_when_an_identifier_belongs_to_another_request_then_refuses(tmp_path: Path) -> None:
    journal = RequestJournal(tmp_path)
    journal.begin(UPDATE, Request("first", "c", {"properties": {"a": 1}}))
    with pytest.raises(Refusal) as refused:
        journal.known(UPDATE, Request("first", "c", {"properties": {"a": 2}}))
    assert refused.value.code is Code.CONFLICT


def test_journal_when_many_were_answered_then_keeps_the_last_and_all_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.gateways.request_journal.KEPT", 3)
    journal = RequestJournal(tmp_path)
    journal.begin(UPDATE, Request("begun", "c"))
    for n in range(6):
        journal.answer(journal.begin(UPDATE, Request(f"r{n}", "c")), 200, None)
    known = [f"r{n}" for n in range(6) if journal.known(UPDATE, Request(f"r{n}", "c"))]
    assert (known, len(journal.unanswered()), KEPT) == (["r3", "r4", "r5"], 1, 256)


def test_version_when_a_gateway_tells_it_then_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
