"""This version and the last one understand each other: messages both ways, and what is on disks.

`tests/golden/` holds what the last version wrote. A difference that is meant, because no one needs what is
gone, belongs into `MEANT` until the golden files are renewed with a release.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from schema_changes import breaking, lenient

from running.places import GOLDEN
from towpath.agent.assignments import AssignmentStore
from towpath.contracts.broadcast import BroadcastView, Content
from towpath.contracts.commands import JournalEntry
from towpath.contracts.export.__main__ import CONTRACTS
from towpath.contracts.export.documents import COMMANDS, MESSAGES, file_name
from towpath.contracts.message import Command, Message, Model
from towpath.contracts.pipeline import PipelineVersion
from towpath.contracts.registry import RegistryCopy
from towpath.contracts.standby import StandbyCopy
from towpath.contracts.uplink import ResolvedUplink, SetUplinks
from towpath.coordinator.pipelines.records import ApplyRecord, ChangeRecord, PipelineRecord
from towpath.coordinator.registry.contents import is_content
from towpath.coordinator.registry.recovery import commands_of
from towpath.engines.spark.checkpoint_format import SparkCheckpoints
from towpath.gateways.request_journal import RequestJournal
from towpath.gateways.result_log import ResultLog
from towpath.mesh.device_users import DeviceFile
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.mesh.tokens import TokenFile
from towpath.processes.record import PidRecord
from towpath.protocols.record import FormerJob, JobEntry, OperationRecord

LAST = max(GOLDEN.iterdir())

MEANT: dict[str, str] = {
    "schemas/scenario.schema.json.steady_state[]: one more kind, #/$defs/StandbyProbe": (
        "a scenario is read by the laboratory of its own version only"
    ),
}
"""Difference, as the test tells it → reason why it does no harm."""


def _read(archive: str) -> dict[str, bytes]:
    with tarfile.open(LAST / archive) as opened:
        return {each.name: opened.extractfile(each).read() for each in opened if each.isfile()}  # type: ignore[union-attr]


LAST_CONTRACTS = _read("contracts.tar.xz")
LAST_MESSAGES = [kind for kind in MESSAGES if f"examples/{file_name(kind)}.json" in LAST_CONTRACTS]
SCHEMAS = sorted(name for name in LAST_CONTRACTS if name.startswith("schemas/"))
COMMAND_SCHEMAS = {f"schemas/{file_name(kind)}.schema.json" for kind in COMMANDS}

EACH_MESSAGE = pytest.mark.parametrize("kind", LAST_MESSAGES, ids=lambda kind: kind.__name__)


def last_schema(kind: type[Message]) -> dict[str, Any]:
    return json.loads(LAST_CONTRACTS[f"schemas/{file_name(kind)}.schema.json"])


def test_messages_of_the_last_version_when_listed_then_this_version_has_them_all() -> None:
    examples = {name for name in LAST_CONTRACTS if name.startswith("examples/")}
    assert examples == {f"examples/{file_name(kind)}.json" for kind in LAST_MESSAGES}


@EACH_MESSAGE
def test_message_of_the_last_version_when_received_then_is_read(kind: type[Message]) -> None:
    kind.from_bytes(LAST_CONTRACTS[f"examples/{file_name(kind)}.json"])


@EACH_MESSAGE
def test_message_of_this_version_when_the_last_receives_it_then_is_read(kind: type[Message]) -> None:
    """A command of this version must leave a field out that the last one lacks, unless it is used."""
    schema = last_schema(kind)
    sent = json.loads(kind.model_validate(kind.example).to_bytes())
    if issubclass(kind, Command):
        known = json.loads(LAST_CONTRACTS[f"examples/{file_name(kind)}.json"])
        sent = json.loads(kind.model_validate(known).to_bytes())
    validator = Draft202012Validator(schema if issubclass(kind, Command) else lenient(schema))
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(sent)] == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_when_compared_with_the_last_then_nothing_breaks(name: str) -> None:
    path = CONTRACTS / name
    assert path.exists(), f"{name} is gone"
    old, new = json.loads(LAST_CONTRACTS[name]), json.loads(path.read_text())
    found = breaking(old, new, is_command=name in COMMAND_SCHEMAS)
    assert [each for each in found if f"{name}{each}" not in MEANT] == []


BEFORE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "job": {"type": "string"},
        "state": {"enum": ["up", "down"]},
        "of": {"$ref": "#/$defs/Of"},
    },
    "required": ["job"],
    "$defs": {
        "Of": {"type": "object", "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    },
}
"""A schema, of which each case below changes one thing."""


def _renamed(schema: dict[str, Any]) -> None:
    schema["properties"]["task"] = schema["properties"].pop("job")


def _retyped(schema: dict[str, Any]) -> None:
    schema["$defs"]["Of"]["properties"]["n"]["anyOf"][0] = {"type": "string"}


def _demanding(schema: dict[str, Any]) -> None:
    schema["properties"]["more"] = {"type": "string"}
    schema["required"].append("more")


def _without_a_value(schema: dict[str, Any]) -> None:
    schema["properties"]["state"]["enum"] = ["up"]


def _with_a_value(schema: dict[str, Any]) -> None:
    schema["properties"]["state"]["enum"].append("asleep")


def _with_a_field(schema: dict[str, Any]) -> None:
    schema["properties"]["more"] = {"type": "string"}


@pytest.mark.parametrize(
    ("change", "found", "of_a_command"),
    [
        (_renamed, ".job: is gone", ".job: is gone"),
        (_retyped, ".of.n: integer became string", ".of.n: integer became string"),
        (_demanding, ".more: must be given", ".more: must be given"),
        (_without_a_value, ".state: without ['down']", ".state: without ['down']"),
        (_with_a_value, ".state: with ['asleep']", None),
        (_with_a_field, None, None),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_schema_when_one_thing_changes_then_that_is_told_if_it_breaks(
    change: Callable[[dict[str, Any]], None], found: str | None, of_a_command: str | None
) -> None:
    after = json.loads(json.dumps(BEFORE))
    change(after)
    assert (breaking(BEFORE, after, is_command=False) or [None])[0] == found
    assert (breaking(BEFORE, after, is_command=True) or [None])[0] == of_a_command


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stores of the last version, unpacked."""
    directory = tmp_path_factory.mktemp("stores")
    with tarfile.open(LAST / "stores.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory


@pytest.fixture
def home(stores: Path) -> Home:
    return Home(stores / "home")


def check_kept(kind: type[Model], text: str | bytes) -> Model:
    """Read what the last version wrote. This version must write all of it, so that the last one can go on."""
    read = kind.from_json(text)
    ours = json.loads(read.model_dump_json())
    assert [*_missing(json.loads(text), ours, kind.__name__)] == []
    return read


def _missing(old: Any, new: Any, at: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name, part in old.items():
            if name not in new:
                yield f"{at}.{name}"
            else:
                yield from _missing(part, new[name], f"{at}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _missing(before, after, f"{at}.{position}")
    elif old != new:
        yield f"{at}: {old!r} became {new!r}"


def test_mesh_of_the_last_version_when_loaded_then_has_its_sites_and_keys(home: Home) -> None:
    mesh = MeshState.load(home)

    assert {*mesh.sites} == {"jfk", "cloud"}
    assert [*_missing(json.loads(home.state.read_bytes()), json.loads(mesh.to_text()), "mesh")] == []


def test_mesh_when_saved_again_then_the_last_version_knows_each_field(home: Home) -> None:
    mesh = MeshState.load(home)

    assert [*_missing(json.loads(mesh.to_text()), json.loads(home.state.read_bytes()), "mesh")] == []


def test_users_of_the_last_version_when_loaded_then_are_the_same(home: Home) -> None:
    assert [token.name for token in check_kept(TokenFile, home.tokens.read_bytes()).tokens] == ["ada"]  # type: ignore[attr-defined]
    check_kept(DeviceFile, home.devices("jfk").read_bytes())


def test_jobs_of_the_last_version_when_a_site_starts_then_go_on_where_they_stood(home: Home) -> None:
    store = AssignmentStore(home.jobs("jfk"), SparkCheckpoints(), durable=False)
    jobs = store.load_all()

    assert {"counted", "copied"} <= {*jobs}
    for assignment in jobs.values():
        assert min(store.position(assignment).values()) > 0
    for path in home.jobs("jfk").glob("*/assignment.json"):
        check_kept(type(next(iter(jobs.values()))), path.read_bytes())


def test_standby_of_the_last_version_when_its_copy_is_looked_at_then_it_is_there(home: Home) -> None:
    store = AssignmentStore(home.jobs("cloud"), SparkCheckpoints(), durable=False)
    assignment = store.load_all()["counted"]

    copy = store.standby_copy(assignment)

    assert copy is not None
    assert min(copy.serials.values()) > 0
    assert store.position(assignment) == copy.serials
    check_kept(StandbyCopy, (home.jobs("cloud") / "counted" / "standby.json").read_bytes())


IN_REGISTRY: dict[str, type[Model]] = {
    "jobs": JobEntry,
    "former": FormerJob,
    "operation": OperationRecord,
    "journal": JournalEntry,
    "pipelines": PipelineRecord,
    "pipeline-versions": PipelineVersion,
    "apply": ApplyRecord,
    "apply-changes": ChangeRecord,
    "uplinks": ResolvedUplink,
    "broadcasts": BroadcastView,
    "broadcast-contents": Content,
}
"""Second part of a key → model of its values."""


def test_registry_of_the_last_version_when_restored_then_every_value_is_read(stores: Path) -> None:
    copy = RegistryCopy.from_json((stores / "registry.json").read_bytes())
    read: set[str] = set()
    for command in commands_of(copy):
        assert is_content(command)
        verb, key, *values = command
        name = key.split(":")[1]
        if name in IN_REGISTRY and verb != "PEXPIREAT":
            for text in values[1::2] if verb == "HSET" else values:
                check_kept(IN_REGISTRY[name], text)
            read.add(name)

    assert copy.jobs == 3
    assert {"jobs", "operation", "journal", "pipelines", "apply", "uplinks", "broadcasts"} <= read


def test_uplinks_of_the_last_version_when_a_site_starts_then_are_read(home: Home) -> None:
    for path in home.uplinks("jfk").glob("*.json"):
        check_kept(SetUplinks, path.read_bytes())


def test_processes_of_the_last_version_when_looked_for_then_their_records_are_read(stores: Path) -> None:
    records = [check_kept(PidRecord, path.read_bytes()) for path in (stores / "run").glob("*.json")]
    assert {"coordinator", "jfk-agent"} <= {record.name for record in records}  # type: ignore[attr-defined]


def test_gateway_of_the_last_version_when_it_starts_then_delivers_what_was_left(stores: Path) -> None:
    log = ResultLog(stores / "gateway" / "results", budget_bytes=100_000)
    assert log.read(0, 10) == [(2, b'{"n": 2}'), (3, b'{"n": 3}')]
    log.close()
    (unanswered,) = RequestJournal(stores / "gateway" / "requests").unanswered()
    assert unanswered.request.body == {"name": "counter"}
