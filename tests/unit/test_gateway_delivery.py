"""Each group has one site, few groups move with a change, and each result has one site for good."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.contracts.gateway import Delivery, DeliverySite
from towpath.gateway.delivery import DeliveryRoutes, Route, rerouted
from towpath.gateway.settings import settings_of
from towpath.gateways.forwarding import IN_FLIGHT, Result
from towpath.gateways.refusal import Refusal
from towpath.gateways.result_log import ResultLog
from towpath.gateways.spreading import site_of
from towpath.mqtt.broker_address import BrokerAddress

GROUPS = [f"hall{number}" for number in range(2_000)]
SITES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.1, 10), min_size=1)


def test_site_of_a_group_when_anyone_computes_it_then_it_is_the_same() -> None:
    weights = {"jfk": 1.0, "ewr": 1.0, "lga": 1.0}

    assert [site_of(f"pi{n}", weights) for n in range(8)] == [
        "jfk",
        "lga",
        "jfk",
        "ewr",
        "ewr",
        "ewr",
        "jfk",
        "jfk",
    ]


@given(SITES, st.sampled_from("abcdefgh"), st.floats(0.1, 10), st.sampled_from(GROUPS))
def test_site_when_it_is_added_or_goes_then_only_its_own_groups_move(
    weights: dict[str, float], site: str, weight: float, group: str
) -> None:
    without = {name: each for name, each in weights.items() if name != site}
    if without:
        before, after = site_of(group, without), site_of(group, without | {site: weight})

        assert after in (before, site)


@given(SITES, st.sampled_from("abcdefgh"), st.sampled_from(GROUPS))
def test_site_when_its_weight_grows_then_it_loses_no_group(
    weights: dict[str, float], site: str, group: str
) -> None:
    weights = weights | {site: 1.0}
    if site_of(group, weights) == site:
        assert site_of(group, weights | {site: 2.0}) == site


def test_sites_when_they_have_weights_then_share_the_groups_by_them() -> None:
    found = Counter(site_of(group, {"a": 1.0, "b": 1.0, "c": 2.0}) for group in GROUPS)

    shares = {site: count / len(GROUPS) for site, count in found.items()}
    assert shares == pytest.approx({"a": 0.25, "b": 0.25, "c": 0.5}, abs=0.03)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc")), max_size=8))
def test_routes_when_sites_change_then_each_number_keeps_the_site_that_it_had(
    changes: list[tuple[int, str]],
) -> None:
    routes, last, expected = [Route(0, "a")], 0, {}
    for more, site in changes:
        expected |= dict.fromkeys(range(last + 1, last + more + 1), routes[-1].site)
        last += more
        routes = rerouted(routes, last, site)

    assert {number: _site(routes, number) for number in expected} == expected
    assert routes[-1].site == (changes[-1][1] if changes else "a")
    assert rerouted(routes, last, routes[-1].site) == routes


def _site(routes: list[Route], number: int) -> str:
    return next(route.site for route in reversed(routes) if route.after < number)


class Broker:
    """Takes results, and acknowledges them when it is told to."""

    window = 1000

    def __init__(self) -> None:
        self.came: list[int] = []
        self._waiting: list[asyncio.Future[Any]] = []

    def publish(self, topic: str, payload: bytes) -> asyncio.Future[Any]:
        self.came.append(json.loads(payload)["sequence"])
        self._waiting.append(asyncio.get_running_loop().create_future())
        return self._waiting[-1]

    def acknowledge(self) -> None:
        for each in self._waiting:
            each.set_result([])
        self._waiting.clear()

    def wake(self) -> None: ...


class Gateway:
    """The delivery of a gateway whose own site is `home`; it can be killed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.brokers: defaultdict[str, Any] = defaultdict(Broker)
        self.restart()

    def restart(self) -> None:
        """Begin with what is on the disk."""
        settings = {"device": "pi01", "directory": str(self._directory), "site": {"host": "home"}}
        own = BrokerAddress("home", 1883)
        self.log = ResultLog(self._directory / "results", budget_bytes=10**6)
        self.routes = DeliveryRoutes(settings_of(settings), own, self.log, self._directory / "delivery.json")
        for site in ("", "away"):
            self.routes.connected(site)

    def add(self, count: int) -> None:
        self.log.append([msgspec.json.encode(Result("a", "site/t", {})) for _ in range(count)])

    def choose(self, *sites: str) -> dict[str, Any]:
        return self.routes.change(Delivery({site: DeliverySite(site) for site in sites}))

    def send(self, *sites: str) -> None:
        for site in sites:
            self.routes.send(self.brokers[site], "" if site == "home" else site)


async def test_results_when_the_site_changes_then_those_with_a_number_go_where_they_would_have_gone(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)
    gateway.add(3)

    gateway.choose("away")
    gateway.add(2)
    gateway.send("away", "home")
    gateway.choose()
    gateway.add(1)
    gateway.send("away", "home")

    assert (gateway.brokers["home"].came, gateway.brokers["away"].came) == ([1, 2, 3, 6], [4, 5])


async def test_gateway_when_it_is_killed_during_a_change_then_no_result_goes_to_another_site(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)
    gateway.add(3)
    gateway.send("home")
    gateway.choose("away")
    gateway.add(1)
    gateway.brokers["home"].acknowledge()  # It is killed before it hears of that.
    gateway.restart()

    gateway.send("home", "away")

    assert gateway.brokers["home"].came == [1, 2, 3, 1, 2, 3]
    assert gateway.brokers["away"].came == [4]


async def test_route_when_all_its_results_are_delivered_then_is_forgotten(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    gateway.add(2)
    gateway.choose("away")
    gateway.send("home")
    waiting = gateway.routes.described()["routes"]

    gateway.brokers["home"].acknowledge()
    gateway.send("home")
    gateway.restart()
    gateway.add(1)
    gateway.send("home", "away")

    assert [(each["site"], each["waiting"]) for each in waiting] == [(None, 2), ("away", 0)]
    assert [each["site"] for each in gateway.routes.described()["routes"]] == ["away"]
    assert (gateway.brokers["home"].came, gateway.brokers["away"].came) == ([1, 2], [3])


async def test_results_when_the_log_was_lost_then_new_ones_go_to_the_present_site_alone(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)
    gateway.add(2)
    gateway.choose("away")
    gateway.add(1)
    shutil.rmtree(tmp_path / "results")
    gateway.restart()
    gateway.add(1)
    gateway.restart()
    gateway.add(2)

    gateway.send("home", "away")

    assert (gateway.brokers["home"].came, gateway.brokers["away"].came) == ([], [1, 2, 3])


async def test_site_when_it_has_two_routes_then_they_share_what_may_be_in_flight(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    gateway.add(IN_FLIGHT - 10)
    gateway.choose("away")
    gateway.add(1)
    gateway.choose("home")
    gateway.add(20)

    gateway.send("home")

    assert gateway.brokers["home"].came == [*range(1, IN_FLIGHT - 9), *range(IN_FLIGHT - 8, IN_FLIGHT + 2)]


async def test_change_when_it_is_repeated_then_changes_nothing(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    gateway.add(2)

    first = gateway.choose("away")

    assert gateway.choose("away") == first
    assert first["site"] == "away"


async def test_change_when_a_site_has_no_proper_name_then_is_refused_and_nothing_changes(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)

    with pytest.raises(Refusal, match="sites"):
        gateway.choose("a/b")

    assert gateway.routes.site is None
