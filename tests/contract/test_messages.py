"""Every message has a valid example that survives the wire, and accepts no unknown field from people."""

import json
import re
from typing import Any

import pytest
from pydantic import ValidationError

from towpath.contracts.export.documents import COMMANDS, MESSAGES, file_name
from towpath.contracts.job import JobState
from towpath.contracts.message import ROOT, Command, Message
from towpath.contracts.reply import Done, Reply
from towpath.contracts.site import SiteSpec, SiteStatus

EACH_MESSAGE = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)


def subclasses(kind: type[Any]) -> set[type[Any]]:
    return {kind, *(found for child in kind.__subclasses__() for found in subclasses(child))}


def test_messages_when_listed_for_export_then_none_is_forgotten() -> None:
    declared = {kind.__name__ for kind in subclasses(Message) if "subject" in vars(kind)}
    assert declared == {kind.__name__ for kind in MESSAGES}


def test_subjects_when_compared_then_no_two_messages_share_one() -> None:
    shapes = [re.sub(r"{\w+}", "*", kind.subject) for kind in MESSAGES]
    assert len(set(shapes)) == len(shapes)


def test_file_names_when_compared_then_no_two_messages_share_one() -> None:
    assert len({file_name(kind) for kind in MESSAGES}) == len(MESSAGES)


def test_service_commands_when_a_site_listens_to_all_of_its_own_then_it_does_not_hear_them() -> None:
    """No site may be called `coordinator`: `command.coordinator.…` would be its `command.{site}.…`."""
    with pytest.raises(ValidationError, match="coordinator"):
        SiteSpec(name="coordinator")


@EACH_MESSAGE
def test_subject_when_filled_then_carries_the_version_and_no_placeholder(kind: type[Message]) -> None:
    subject = kind.model_validate(kind.example).to_subject()
    assert subject.startswith(f"{ROOT}.")
    assert re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", subject)


@EACH_MESSAGE
def test_subject_when_it_has_placeholders_then_they_are_fields(kind: type[Message]) -> None:
    assert set(kind.placeholders()) <= set(kind.model_fields)


@EACH_MESSAGE
def test_message_when_sent_and_received_then_is_the_same(kind: type[Message]) -> None:
    message = kind.model_validate(kind.example)
    assert kind.from_bytes(message.to_bytes()) == message


@EACH_MESSAGE
def test_message_when_it_has_an_unknown_field_then_is_refused(kind: type[Message]) -> None:
    with pytest.raises(ValidationError, match="unheard_of"):
        kind.model_validate({**kind.example, "unheard_of": 1})


@EACH_MESSAGE
def test_message_when_a_later_version_says_more_then_is_read_and_a_command_is_refused(
    kind: type[Message],
) -> None:
    later = json.dumps(with_more(kind.model_validate(kind.example).model_dump(mode="json"))).encode()
    if issubclass(kind, Command):
        with pytest.raises(ValidationError, match="of_a_later_version"):
            kind.from_bytes(later)
    else:
        assert kind.from_bytes(later) == kind.model_validate(kind.example)


def with_more(body: dict[str, Any]) -> dict[str, Any]:
    """Return the same with one more field."""
    return {**body, "of_a_later_version": {"at": [1]}}


def test_heartbeat_when_a_later_version_says_more_of_a_job_then_the_site_is_heard() -> None:
    body = SiteStatus.model_validate(SiteStatus.example).model_dump(mode="json")
    job = {"job": "counts", "epoch": 1, "state": "running"}
    body["jobs"] = [with_more(job), {**job, "state": "dreaming"}]

    heard = SiteStatus.from_bytes(json.dumps(body).encode())

    assert [each.state for each in heard.jobs] == [JobState.RUNNING, JobState.UNKNOWN]


def test_reply_when_a_later_version_answers_more_then_is_read() -> None:
    reply = json.dumps(with_more({"ok": True, "result": with_more({"note": "done"})}))
    assert Reply[Done].from_json(reply).unwrap() == Done(note="done")


@EACH_MESSAGE
def test_message_when_a_field_of_the_example_without_default_is_missing_then_is_refused(
    kind: type[Message],
) -> None:
    for name, field in kind.model_fields.items():
        if field.is_required():
            with pytest.raises(ValidationError, match=name):
                kind.model_validate({key: value for key, value in kind.example.items() if key != name})


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_command_when_sent_without_id_then_gets_a_fresh_one(kind: type[Command[Any]]) -> None:
    body = {key: value for key, value in kind.example.items() if key != "id"}
    assert kind.model_validate(body).id != kind.model_validate(body).id


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_reply_when_it_has_neither_result_nor_error_then_is_refused(kind: type[Command[Any]]) -> None:
    reply = Reply[kind.answer]  # type: ignore[name-defined]
    with pytest.raises(ValidationError):
        reply.model_validate({"ok": True})
    with pytest.raises(ValidationError):
        reply.model_validate({"ok": False})
