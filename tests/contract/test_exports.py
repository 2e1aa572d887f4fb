"""The exports for other languages agree with the models."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from towpath.contracts.export import __main__ as export
from towpath.contracts.export.__main__ import CONTRACTS, drift, main, write
from towpath.contracts.export.asyncapi import asyncapi
from towpath.contracts.export.documents import COMMANDS, MESSAGES, file_name
from towpath.contracts.export.documents import documents as made
from towpath.contracts.message import Event, Message

ASYNCAPI_SCHEMA = Path(__file__).with_name("asyncapi-3.0.0.schema.json")
"""The schema of AsyncAPI 3.0.0 itself, from npm's `@asyncapi/specs` (Apache-2.0), without line breaks."""

EACH_MESSAGE = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)


def schema_of(kind: type[Message]) -> dict[str, Any]:
    return json.loads((CONTRACTS / "schemas" / f"{file_name(kind)}.schema.json").read_text())


def asyncapi_problems(document: dict[str, Any]) -> list[str]:
    schema = json.loads(ASYNCAPI_SCHEMA.read_text())
    return [error.message for error in validator_for(schema)(schema).iter_errors(document)]


def exported_asyncapi() -> dict[str, Any]:
    return json.loads((CONTRACTS / "asyncapi.json").read_text())


def resolve(document: dict[str, Any], reference: str) -> Any:
    node: Any = document
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node


def references_in(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references_in(value)]
    return [found for item in node for found in references_in(item)] if isinstance(node, list) else []


@pytest.fixture(scope="module")
def documents() -> dict[str, str]:
    """Return all exports. They are made once, because that takes a second."""
    return made()


@pytest.fixture(scope="module")
def commands_alone() -> dict[str, Any]:
    """Return the AsyncAPI document of all commands."""
    return asyncapi(COMMANDS, ())


def test_exported_files_when_models_are_exported_again_then_do_not_differ(
    documents: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "documents", lambda: documents)
    assert drift(CONTRACTS) == []


def test_check_when_a_file_is_changed_missing_or_left_over_then_fails_and_names_each(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    documents: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "documents", lambda: documents)
    write(tmp_path)
    assert main(["--check", "--into", str(tmp_path)]) == 0
    (tmp_path / "REFERENCE.md").write_text("old")
    (tmp_path / "schemas/deploy-job.schema.json").unlink()
    (tmp_path / "examples/forgotten.json").write_text("{}")
    assert main(["--check", "--into", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    for name in ("REFERENCE.md", "schemas/deploy-job.schema.json", "examples/forgotten.json"):
        assert name in said
    write(tmp_path)
    assert drift(tmp_path) == []


@EACH_MESSAGE
def test_exported_schema_when_given_the_example_then_accepts_it(kind: type[Message]) -> None:
    schema = schema_of(kind)
    Draft202012Validator.check_schema(schema)
    example = json.loads((CONTRACTS / "examples" / f"{file_name(kind)}.json").read_text())
    assert [error.message for error in Draft202012Validator(schema).iter_errors(example)] == []


@EACH_MESSAGE
def test_exported_schema_when_given_an_unknown_field_then_refuses_it(kind: type[Message]) -> None:
    problems = Draft202012Validator(schema_of(kind)).iter_errors({**kind.example, "unheard_of": 1})
    assert any("unheard_of" in error.message for error in problems)


def test_asyncapi_when_judged_by_its_own_schema_then_is_valid() -> None:
    assert asyncapi_problems(exported_asyncapi()) == []


def test_asyncapi_schema_when_an_operation_lacks_its_channel_then_refuses_the_document() -> None:
    document = exported_asyncapi()
    del document["operations"]["DeployJob"]["channel"]
    assert asyncapi_problems(document) != []


def test_asyncapi_when_references_are_followed_then_all_lead_somewhere() -> None:
    document = exported_asyncapi()
    references = set(references_in(document))
    assert len(references) > len(MESSAGES)
    for reference in references:
        assert isinstance(resolve(document, reference), dict), reference


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_asyncapi_when_it_shows_a_command_then_names_its_reply(
    kind: type[Message], commands_alone: dict[str, Any]
) -> None:
    document = commands_alone
    operation = document["operations"][kind.__name__]
    assert operation["action"] == "receive"
    assert resolve(document, operation["channel"]["$ref"])["address"] == kind.subject
    message = resolve(document, resolve(document, operation["reply"]["messages"][0]["$ref"])["$ref"])
    assert {"ok", "result", "error"} == set(resolve(document, message["payload"]["$ref"])["properties"])


def test_asyncapi_when_it_shows_an_event_then_the_mesh_sends_it() -> None:
    operations = exported_asyncapi()["operations"]
    for kind in MESSAGES:
        if issubclass(kind, Event):
            assert operations[kind.__name__]["action"] == "send"


def test_reference_when_its_links_are_followed_then_each_meets_a_heading() -> None:
    text = (CONTRACTS / "REFERENCE.md").read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    anchors = {re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert links
    assert links - anchors == set()


@EACH_MESSAGE
def test_reference_when_a_message_exists_then_shows_its_subject_and_every_field(kind: type[Message]) -> None:
    text = (CONTRACTS / "REFERENCE.md").read_text()
    section = re.split(r"^#{2,3} ", text.split(f"\n### {kind.__name__}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    assert f"`{kind.subject}`" in section
    for field in kind.model_fields:
        assert f"| `{field}` |" in section


@pytest.mark.parametrize("example", ["delays-1.yaml", "delays-2.yaml"])
def test_schema_of_pipelines_when_an_editor_checks_an_example_with_it_then_it_fits(example: str) -> None:
    path = CONTRACTS.parent / "examples" / "pipelines" / example
    text = path.read_text()
    named = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    schema = json.loads((path.parent / named).read_text())
    jsonschema.validate(yaml.safe_load(text), schema)
    wrong = {"name": "delays", "jobs": [{"name": "a", "sites": "jfk"}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)
