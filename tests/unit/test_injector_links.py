"""The injector's memory of links that rules make worse. One object is the links' service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from towpath.contracts.faults import Rule
from towpath.contracts.links import LinkConditions, LinkList, LinkView, ListLinks, RestoreLink, ShapeLink
from towpath.contracts.message import HUB_SCOPE, Command
from towpath.lab.injector import record
from towpath.lab.injector.links import LinkRules
from towpath.lab.injector.loaded import LoadedRules
from towpath.lab.injector.record import InjectorRecord, Recorded

BY_HAND = LinkConditions(delay_ms=7)
SLOW = Rule.model_validate(
    {
        "name": "slow",
        "event": {"target": "link", "name": "jfk"},
        "actions": [{"fault": "slow", "parameters": {"delay_ms": 10}}],
    }
)


class OneLink:
    """The links' service of a mesh with one link."""

    def __init__(self, record: InjectorRecord) -> None:
        self.record = record
        self.conditions = BY_HAND
        self.recorded: list[Recorded] = []
        """The injector's file at each change of the link."""

    async def request(self, command: Command, deadline_s: float) -> Any:
        if isinstance(command, ListLinks):
            view = LinkView(
                site="jfk", conditions=self.conditions, connections=0, bytes_to_hub=0, bytes_to_site=0
            )
            return LinkList(links=[view])
        assert isinstance(command, ShapeLink | RestoreLink)
        self.recorded.append(await self.record.read())
        self.conditions = command.conditions if isinstance(command, ShapeLink) else LinkConditions()
        return None


@pytest.fixture
def link(tmp_path: Path) -> OneLink:
    return OneLink(InjectorRecord(tmp_path / "record.json"))


def link_rules(link: OneLink, loaded: LoadedRules) -> LinkRules:
    """Return the link rules of one injector."""

    async def remember() -> bool:
        return await link.record.write(Recorded(links=rules.held))

    service: Any = link
    rules = LinkRules(loaded, service, lambda asked: None, remember)
    return rules


async def test_link_when_a_rule_makes_it_worse_then_how_it_was_is_on_disk_before(link: OneLink) -> None:
    loaded = LoadedRules({})
    rules = link_rules(link, loaded)
    loaded.load({"slow": (SLOW, [HUB_SCOPE])}, None)
    await rules.look()
    assert link.conditions.delay_ms > BY_HAND.delay_ms
    assert link.recorded[0].links["jfk"].conditions == BY_HAND
    loaded.unload(None)
    await rules.look()
    assert link.conditions == BY_HAND
    assert (await link.record.read()).links == {}


async def test_link_when_how_it_was_cannot_be_written_then_it_is_not_touched(
    link: OneLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    loaded = LoadedRules({})
    rules = link_rules(link, loaded)
    [rule] = loaded.load({"slow": (SLOW, [HUB_SCOPE])}, None).loaded
    with monkeypatch.context() as disk:
        disk.setattr(record, "write_private_file", full)
        await rules.look()
    assert (link.conditions, rules.held) == (BY_HAND, {})
    assert "could not be written down" in (rule.count.last_error or "")
    await rules.look()
    assert link.conditions.delay_ms > BY_HAND.delay_ms


async def test_link_when_the_injector_that_made_it_worse_died_then_its_successor_restores_it(
    link: OneLink,
) -> None:
    loaded = LoadedRules({})
    loaded.load({"slow": (SLOW, [HUB_SCOPE])}, None)
    await link_rules(link, loaded).look()
    successor = link_rules(link, LoadedRules({}))
    successor.take_over((await link.record.read()).links)
    await successor.look()
    assert link.conditions == BY_HAND
    assert (await link.record.read()).links == {}
