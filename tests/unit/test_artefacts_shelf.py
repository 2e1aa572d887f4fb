"""A site's copies of user code: verified at every use, and deleted when no job needs them."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from towpath.agent import artefacts as agent_artefacts
from towpath.agent.artefacts import SiteArtefacts
from towpath.artefacts.archive import digest_of, pack
from towpath.artefacts.shelf import Shelf
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.contracts.operators import Python

CONTENT = b"some code"
DIGEST = digest_of(CONTENT)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "artefacts")


def test_artefact_when_kept_then_it_is_found_and_cannot_be_written(shelf: Shelf) -> None:
    path = shelf.keep(DIGEST, CONTENT)
    assert shelf.find(DIGEST) == path
    assert path.read_bytes() == CONTENT
    assert stat.S_IMODE(path.stat().st_mode) == 0o400


@pytest.mark.parametrize("damaged", [b"some cod", b"some c0de", b""], ids=["truncated", "changed", "empty"])
def test_artefact_when_it_is_damaged_then_it_is_not_there(shelf: Shelf, damaged: bytes) -> None:
    path = shelf.keep(DIGEST, CONTENT)
    path.chmod(0o600)
    path.write_bytes(damaged)
    assert shelf.find(DIGEST) is None
    assert not path.exists()


def test_artefact_when_an_agent_was_killed_while_it_wrote_it_then_it_is_written_again(shelf: Shelf) -> None:
    path = shelf.keep(DIGEST, CONTENT)
    path.rename(path.with_name(f".{path.name}.1.1.tmp"))
    assert shelf.find(DIGEST) is None
    assert shelf.keep(DIGEST, CONTENT).read_bytes() == CONTENT


def test_artefacts_when_neither_needed_nor_used_lately_then_they_are_deleted_with_their_marks(
    shelf: Shelf,
) -> None:
    digests = {name: digest_of(name.encode()) for name in ("needed", "fresh", "old")}
    for name, digest in digests.items():
        path = shelf.keep(digest, name.encode())
        shelf.note_callable(digest, "m:f")
        if name != "fresh":
            os.utime(path, (1, 1))
    assert shelf.discard({digests["needed"]}, unused_s=60) == [digests["old"]]
    assert sorted(p.name.partition(".")[0] for p in shelf.directory.iterdir()) == sorted(
        [digests["needed"], digests["fresh"]] * 2
    )


def test_artefact_when_it_is_looked_for_then_it_counts_as_used(shelf: Shelf) -> None:
    os.utime(shelf.keep(DIGEST, CONTENT), (1, 1))
    assert shelf.find(DIGEST) is not None
    assert shelf.discard(set(), unused_s=60) == []


class Hub:
    """Stands in for the hub: counts what is fetched."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.fetched: list[str] = []
        self.reachable = True

    async def fetch(self, connection: Any, digest: str) -> bytes:
        self.fetched.append(digest)
        await asyncio.sleep(0)
        if not self.reachable:
            raise TowpathError(ErrorCode.UNREACHABLE, "the hub does not answer")
        return self.contents[digest]


@pytest.fixture
def code(tmp_path: Path) -> bytes:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "good.py").write_text("def run(events, parameters): ...\n")
    (folder / "bad.py").write_text("raise ValueError('no good')\n")
    return pack(folder, tmp_path)


@pytest.fixture
def hub(code: bytes, monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub({digest_of(code): code})
    monkeypatch.setattr(agent_artefacts, "fetch", hub.fetch)
    return hub


def job(code: bytes, entry: str = "good:run") -> Assignment:
    example = Assignment.model_validate({**EXAMPLE_ASSIGNMENT, "artefact": digest_of(code)})
    operator = Python(entry=entry, artefact="where/the/user/had/it")
    return example.model_copy(update={"spec": example.spec.model_copy(update={"operator": operator})})


async def test_code_when_many_jobs_need_it_at_once_then_it_is_fetched_once(
    shelf: Shelf, hub: Hub, code: bytes
) -> None:
    artefacts = SiteArtefacts(None, shelf)  # type: ignore[arg-type]
    placed = await asyncio.gather(*(artefacts.in_place(job(code)) for _ in range(5)))
    paths = {p.spec.operator.artefact for p in placed if isinstance(p.spec.operator, Python)}
    assert paths == {str(shelf.find(digest_of(code)))}
    assert hub.fetched == [digest_of(code)]


async def test_code_when_it_is_here_then_the_hub_may_be_away(shelf: Shelf, hub: Hub, code: bytes) -> None:
    await SiteArtefacts(None, shelf).in_place(job(code))  # type: ignore[arg-type]
    hub.reachable = False
    again = await SiteArtefacts(None, shelf).in_place(job(code))  # type: ignore[arg-type]
    assert isinstance(again.spec.operator, Python)
    assert hub.fetched == [digest_of(code)]


async def test_code_when_the_local_copy_is_damaged_then_it_is_fetched_again(
    shelf: Shelf, hub: Hub, code: bytes
) -> None:
    artefacts = SiteArtefacts(None, shelf)  # type: ignore[arg-type]
    await artefacts.in_place(job(code))
    path = shelf.find(digest_of(code))
    assert path is not None
    path.chmod(0o600)
    path.write_bytes(code[:100])
    await artefacts.in_place(job(code))
    assert path.read_bytes() == code
    assert len(hub.fetched) == 2


async def test_code_when_it_does_not_import_then_the_engine_is_never_asked(
    shelf: Shelf, hub: Hub, code: bytes
) -> None:
    with pytest.raises(TowpathError, match=r"ValueError: no good \(line 1 of bad\.py"):
        await SiteArtefacts(None, shelf).in_place(job(code, "bad:run"))  # type: ignore[arg-type]


async def test_code_when_no_digest_names_it_then_it_is_refused(shelf: Shelf, hub: Hub, code: bytes) -> None:
    named = job(code).model_copy(update={"artefact": None})
    with pytest.raises(TowpathError, match="code is taken only from the hub"):
        await SiteArtefacts(None, shelf).in_place(named)  # type: ignore[arg-type]
    assert hub.fetched == []
