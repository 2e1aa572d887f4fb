"""Emulated links are a setting of the mesh: what it changes, what stays, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from towpath.agent.settings import AgentSettings
from towpath.cli.__main__ import app
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.links import LinkConditions
from towpath.contracts.site import Addresses, MeshSpec, SiteSpec
from towpath.contracts.tls import TlsSpec
from towpath.lab.links.record import LinkRecord
from towpath.lab.links.settings import LinkSettings
from towpath.lab.proxy.recorded_conditions import RecordedConditions
from towpath.mesh.home import Home
from towpath.mesh.nats_config import hub_config, site_config
from towpath.mesh.provisioning import provision
from towpath.mesh.settings import spec_of_sites
from towpath.mesh.state import MeshState
from towpath.supervisor.app import children

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def emulated(sites: str, yes: bool = True) -> MeshSpec:
    return spec_of_sites(sites).model_copy(update={"emulate_links": yes})


def leaf_port(state: MeshState, site: str, home: Home) -> int:
    """Return the port to which the configuration of a site's server lets it connect."""
    [remote] = json.loads(site_config(state, site, home))["leafnodes"]["remotes"]
    [url] = remote["urls"]
    return int(url.rsplit(":", 1)[1])


def versions(state: MeshState, home: Home) -> dict[str, str]:
    return {child.name: child.version for child in children(state, home)}


def test_sites_connect_to_the_hub_itself_when_links_are_not_emulated(home: Home) -> None:
    state = provision(home, spec_of_sites("jfk,lga"))
    assert ("links" in state.logins, {a.link_port for a in state.sites.values()}) == (False, {0})
    assert leaf_port(state, "jfk", home) == state.leaf_port
    assert "links" not in versions(state, home)
    assert "hub.links" not in hub_config(state, home)


def test_agent_finds_redis_over_its_link_when_links_are_emulated(home: Home) -> None:
    direct = provision(home, spec_of_sites("jfk"))
    assert AgentSettings.of(home.root, "jfk").redis_port == direct.redis_port
    state = provision(home, emulated("jfk"))
    assert AgentSettings.of(home.root, "jfk").redis_port == state.sites["jfk"].link_redis_port
    [hub, redis] = LinkSettings.from_home(home.root).routes["jfk"]
    assert (hub.near[1], hub.far[0][1]) == (state.sites["jfk"].link_port, state.leaf_port)
    assert (redis.near[1], redis.far[0][1]) == (state.sites["jfk"].link_redis_port, state.redis_port)


def test_parts_find_each_other_by_name_when_they_are_on_different_machines(home: Home) -> None:
    addresses = Addresses(hub="hub", redis="store", links="wan")
    told = {"listen": "0.0.0.0", "addresses": addresses, "tls": TlsSpec(allow_plain=True)}
    spec = emulated("jfk").model_copy(update=told)
    state = provision(home, spec)
    access = state.site("jfk")
    assert state.hub_url == f"nats://hub:{state.spec.hub_port}"
    assert (state.redis_host, access.nats_url) == ("store", f"nats://127.0.0.1:{access.spec.nats_port}")
    assert state.leaf_remotes(access) == [("wan", access.link_port)]
    assert state.redis_remote(access) == ("wan", access.link_redis_port)
    direct = state.model_copy(update={"spec": spec.model_copy(update={"emulate_links": False})})
    assert direct.leaf_remotes(access) == [("hub", state.leaf_port)]


def test_each_site_connects_to_a_port_of_its_own_when_links_are_emulated(home: Home) -> None:
    before = provision(home, spec_of_sites("jfk,lga"))
    state = provision(home, emulated("jfk,lga"))
    ports = {site: leaf_port(state, site, home) for site in state.sites}
    assert ports == {site: access.link_port for site, access in state.sites.items()}
    assert len({*ports.values(), state.leaf_port, 0}) == 4
    assert (state.leaf_port, state.login("coordinator")) == (before.leaf_port, before.login("coordinator"))
    assert state.sites["jfk"].leaf == before.sites["jfk"].leaf
    assert "hub.links" in hub_config(state, home)


def test_site_does_not_follow_the_hub_around_its_link_when_links_are_emulated(home: Home) -> None:
    state = provision(home, emulated("jfk"))
    [remote] = json.loads(site_config(state, "jfk", home))["leafnodes"]["remotes"]
    assert remote["ignore_discovered_servers"] is True


def test_links_run_before_agents_when_links_are_emulated(home: Home) -> None:
    state = provision(home, emulated("jfk"))
    after = {child.name: child.after for child in children(state, home)}
    assert after["links"] == ("hub", "redis")
    assert "links" in after["jfk-agent"]


def test_agent_restarts_when_its_link_is_emulated_or_not_any_more(home: Home) -> None:
    seen = [
        versions(provision(home, emulated("jfk", yes)), home)["jfk-agent"] for yes in (False, True, False)
    ]
    assert seen[0] != seen[1] != seen[2]


def test_ports_and_password_are_the_same_when_links_are_emulated_again(home: Home) -> None:
    first = provision(home, emulated("jfk"))
    off = provision(home, emulated("jfk", False))
    assert leaf_port(off, "jfk", home) == off.leaf_port
    again = provision(home, emulated("jfk"))
    assert again == first


def test_links_stay_emulated_when_a_spec_that_does_not_say_adds_a_site(home: Home) -> None:
    first = provision(home, emulated("jfk"))
    second = provision(home, MeshSpec(sites=[SiteSpec(name="cloud")]))
    assert second.spec.emulate_links
    assert second.sites["jfk"] == first.sites["jfk"]
    assert leaf_port(second, "cloud", home) not in {0, second.leaf_port, first.sites["jfk"].link_port}


def test_nothing_changes_when_a_mesh_was_saved_before_links_could_be_emulated(home: Home) -> None:
    state = provision(home, spec_of_sites("jfk"))
    saved = json.loads(home.state.read_text())
    del saved["spec"]["emulate_links"], saved["sites"]["jfk"]["link_port"]
    home.state.write_text(json.dumps(saved))
    assert MeshState.load(home) == state
    assert provision(home, spec_of_sites("jfk")) == state
    upgraded = provision(home, emulated("jfk"))
    assert upgraded == MeshState.load(home)
    assert (upgraded.leaf_port, upgraded.operator) == (state.leaf_port, state.operator)


def test_process_is_refused_when_links_are_not_emulated(home: Home) -> None:
    provision(home, spec_of_sites("jfk"))
    with pytest.raises(TowpathError) as refused:
        LinkSettings.from_home(home.root)
    assert (refused.value.detail.code, refused.value.detail.field) == (
        ErrorCode.NOT_ALLOWED,
        "emulate_links",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("delay_ms", -1),
        ("delay_ms", float("nan")),
        ("delay_ms", 60_001),
        ("jitter_ms", -0.1),
        ("bandwidth_bytes_per_s", 0),
        ("for_s", 0),
        ("for_s", float("inf")),
        ("cut", "perhaps"),
        ("loss", 0.1),
    ],
)
def test_conditions_are_refused_by_name_when_they_make_no_sense(field: str, value: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        LinkConditions.model_validate({field: value})
    assert TowpathError.of_validation(refused.value).detail.field == field


async def test_conditions_are_remembered_when_they_were_written(tmp_path: Path) -> None:
    record = LinkRecord(tmp_path / "links.json")
    assert await record.read() == {}
    cut = LinkConditions(cut=True)
    await record.write(
        {
            "jfk": RecordedConditions(conditions=cut, until=None),
            "lga": RecordedConditions(conditions=LinkConditions(), until=None),
        }
    )
    assert await LinkRecord(tmp_path / "links.json").read() == {"jfk": cut}


async def test_all_links_are_perfect_when_what_was_written_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "links.json").write_text('{"links": {"jfk"')
    assert await LinkRecord(tmp_path / "links.json").read() == {}


@pytest.mark.parametrize(
    ("passed_s", "left"),
    [
        (4, LinkConditions(cut=True, for_s=6)),
        (10, LinkConditions()),
        (99, LinkConditions()),
        (-3600, LinkConditions(cut=True, for_s=10)),
    ],
)
def test_conditions_hold_for_the_rest_of_their_time_when_the_process_restarts(
    passed_s: float, left: LinkConditions
) -> None:
    kept = RecordedConditions(conditions=LinkConditions(cut=True, for_s=10), until=AT + timedelta(seconds=10))
    assert kept.remaining(AT + timedelta(seconds=passed_s)) == left


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["link"], "SITE"),
        (["link", "jfk"], "--restore"),
        (["link", "jfk", "--for", "20"], "--cut"),
        (["link", "jfk", "--cut", "--restore"], "--restore"),
        (["link", "jfk", "--delay-ms", "-5"], "delay_ms"),
        (["link", "jfk", "--delay-ms", "nan"], "delay_ms"),
        (["link", "jfk", "--bandwidth", "0"], "bandwidth_bytes_per_s"),
        (["link", "jfk", "--bandwidth", "fast"], "--bandwidth"),
        (["link", "jfk", "--cut", "--for", "0"], "for_s"),
        (["link", "The Moon", "--cut"], "The Moon"),
        (["link", "jfk", "--cut"], "--emulate-links"),
        (["links"], "--emulate-links"),
    ],
)
def test_command_line_says_in_one_line_what_is_wrong_when_a_link_cannot_be_shaped(
    home: Home, arguments: list[str], said: str
) -> None:
    provision(home, spec_of_sites("jfk"))
    result = CliRunner().invoke(app, ["--home", str(home.root), *arguments])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr
