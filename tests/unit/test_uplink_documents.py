"""Files of uplinks: several in one, and every mistake named."""

from __future__ import annotations

import pytest

from running.places import EXAMPLES
from towpath.contracts.errors import TowpathError
from towpath.uplinks.documents import read_uplinks

ONE = "{name: a, site: train, topic: site/a, to: cloud}"


def test_file_when_it_is_the_example_then_all_its_uplinks_are_read() -> None:
    found = read_uplinks((EXAMPLES / "uplinks" / "train.yaml").read_text())

    assert [spec.name for spec in found] == ["departures", "heartbeats"]
    assert found[0].topics == ["from/jfk/departures", "from/jfk/departures/late"]


def test_file_when_it_has_several_documents_then_each_is_an_uplink() -> None:
    assert len(read_uplinks(f"{ONE}\n---\n{ONE.replace('name: a', 'name: b')}")) == 2


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (f"uplinks: [{ONE}, {ONE}]", "name"),
        ("{name: a, site: train, topic: site/a, to: train}", None),
        ("{name: a, site: train, topic: site/a, to: cloud, priority: 12}", "priority"),
        ("{name: a, site: train, topic: site/a, to: cloud, speed: 12}", "speed"),
        ("{name: a, site: train, topic: site/a, to: cloud, windows: [{cron: never, duration_s: 1}]}", "cron"),
    ],
)
def test_file_when_it_has_a_mistake_then_its_field_is_named(text: str, field: str | None) -> None:
    with pytest.raises(TowpathError) as refused:
        read_uplinks(text)

    assert field is None or any(field in (error.field or "") for error in refused.value.detail.errors)


def test_file_when_it_is_empty_then_it_is_refused() -> None:
    with pytest.raises(TowpathError, match="no uplink"):
        read_uplinks("")
