"""The engine that `docs/extending/engine.md` adds passes the suite of all engines."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from engine_suite import EngineSuite, PlayedEngine, change

from towpath.contracts.site import EngineKind, EngineSpec
from towpath.engines import binders

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "engine.md"


class TallyWriter:
    """The process of the page's engine."""

    def plan(self, checkpoint: Path, batch: int, serials: Sequence[int]) -> None:
        """Write down what the micro-batch reads."""
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / f"planned-{batch}.json").write_text(json.dumps({"serials": serials}))

    def commit(self, checkpoint: Path, batch: int) -> None:
        """Write down the whole state."""
        state = [*self.state(checkpoint), change(batch)]
        planned = json.loads((checkpoint / f"planned-{batch}.json").read_text())
        (checkpoint / f"done-{batch}.json").write_text(json.dumps({**planned, "state": state}))

    def state(self, checkpoint: Path) -> list[str]:
        """Read the newest file."""
        done = max(checkpoint.glob("done-*.json"), key=lambda path: int(path.stem[5:]), default=None)
        return [] if done is None else json.loads(done.read_text())["state"]


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    """The page's code."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module = ModuleType("tally")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        exec(compile(code, str(PAGE), "exec"), module.__dict__)
        yield module


class TestEngineOfThePage(EngineSuite):
    """The suite, for `tally`."""

    @pytest.fixture
    def engine(self, page: ModuleType) -> PlayedEngine:
        return PlayedEngine(page.TallyEngine(), TallyWriter())


def test_engine_of_the_page_when_a_site_asks_for_it_then_its_binder_is_the_one(
    page: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str.__new__(EngineKind, "tally")
    name._value_, name._name_ = "tally", "TALLY"
    monkeypatch.setitem(EngineKind._value2member_map_, "tally", name)
    monkeypatch.setattr(binders, "BINDERS", {**binders.BINDERS, name: page.TallyEngine()})

    spec = EngineSpec.model_validate({"kind": "tally"})

    assert isinstance(binders.engine_binder(spec), page.TallyEngine)
