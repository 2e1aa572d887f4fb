"""The saved mesh: what it is given once, it keeps."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import Durability, MeshSpec, SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.provisioning import new_mesh, provision
from towpath.mesh.settings import parse_spec, spec_of_sites
from towpath.mesh.state import MeshState


def ports(state: MeshState) -> list[int]:
    sites = [port for a in state.sites.values() for port in (a.spec.nats_port, a.spec.mqtt_port)]
    return [state.spec.hub_port, state.spec.redis_port, state.leaf_port, *sites]


def test_every_listener_has_a_port_of_its_own_when_a_mesh_is_created() -> None:
    state = new_mesh(spec_of_sites("jfk,lga,cloud"))
    assert all(port > 0 for port in ports(state))
    assert len(set(ports(state))) == 9


def test_every_user_has_a_password_of_its_own_when_a_mesh_is_created() -> None:
    state = new_mesh(spec_of_sites("jfk,lga"))
    credentials = [state.operator, state.redis_coordinator, *state.logins.values()]
    for access in state.sites.values():
        assert access.gateway is not None
        credentials += [access.device, access.gateway, access.leaf, access.redis, *access.logins.values()]
    assert len({c.password for c in credentials}) == len(credentials) == 20
    assert all(len(c.password) == 48 for c in credentials)


def test_named_port_is_taken_when_the_spec_names_one() -> None:
    state = new_mesh(MeshSpec(sites=[SiteSpec(name="jfk", mqtt_port=1883)], hub_port=4222))
    assert (state.hub_url, state.sites["jfk"].mqtt_port) == ("nats://127.0.0.1:4222", 1883)


def test_mesh_is_refused_when_two_listeners_name_one_port() -> None:
    with pytest.raises(TowpathError) as refused:
        new_mesh(MeshSpec(sites=[SiteSpec(name="jfk", mqtt_port=4222)], hub_port=4222))
    assert (refused.value.detail.field, refused.value.detail.value) == ("sites.0.mqtt_port", 4222)


def test_nothing_changes_when_the_same_spec_comes_again(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    first = provision(home, spec_of_sites("jfk,lga"))
    written = home.state.stat().st_mtime_ns
    assert provision(home, spec_of_sites("jfk,lga")) == first == MeshState.load(home)
    assert home.state.stat().st_mtime_ns == written


def test_site_is_added_and_others_stay_when_the_spec_names_a_new_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    first = provision(home, spec_of_sites("jfk,lga"))
    second = provision(home, spec_of_sites("cloud"))
    assert list(second.sites) == ["jfk", "lga", "cloud"]
    assert {name: second.sites[name] for name in first.sites} == first.sites
    assert (second.logins, ports(second)[:3]) == (first.logins, ports(first)[:3])
    assert len(set(ports(second))) == 9
    assert home.jobs("cloud").is_dir()


def test_setting_changes_and_port_stays_when_the_spec_of_a_site_changes(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    first = provision(home, spec_of_sites("jfk"))
    changed = MeshSpec(sites=[SiteSpec(name="jfk", durability=Durability.POWER_SAFE)])
    second = provision(home, changed)
    assert second.sites["jfk"].spec.durability is Durability.POWER_SAFE
    assert (second.sites["jfk"].mqtt_port, second.sites["jfk"].agent) == (
        first.sites["jfk"].mqtt_port,
        first.sites["jfk"].agent,
    )


def test_only_the_owner_may_read_when_a_mesh_is_saved(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    provision(home, spec_of_sites("jfk"))
    assert stat.S_IMODE(home.state.stat().st_mode) == 0o600
    for directory in (
        home.root,
        home.run,
        home.logs,
        home.hub,
        home.redis,
        home.site("jfk"),
        home.nats("jfk"),
    ):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_old_state_stays_when_writing_the_new_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    first = provision(home, spec_of_sites("jfk"))

    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        provision(home, spec_of_sites("jfk,lga"))
    assert MeshState.load(home) == first


def test_load_is_refused_when_there_is_no_mesh(tmp_path: Path) -> None:
    with pytest.raises(TowpathError, match="no mesh here"):
        MeshState.load(Home(tmp_path))


def test_site_is_refused_when_the_mesh_has_none_of_that_name() -> None:
    with pytest.raises(TowpathError) as refused:
        new_mesh(spec_of_sites("jfk")).site("mars")
    assert (refused.value.detail.code, refused.value.detail.allowed) == (ErrorCode.UNKNOWN_SITE, ["jfk"])


@pytest.mark.parametrize(
    ("listen", "url"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]")],
)
def test_address_can_be_connected_to_when_a_server_listens_everywhere(listen: str, url: str) -> None:
    spec = MeshSpec(sites=[SiteSpec(name="jfk")], listen=listen, hub_port=4222, redis_port=6379)
    try:
        state = new_mesh(spec)
    except TowpathError:
        pytest.skip("this machine has no IPv6")
    assert state.hub_url == f"nats://{url}:4222"


def test_home_is_the_named_directory_when_the_environment_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_HOME", str(tmp_path))
    assert Home.default().root == tmp_path
    monkeypatch.delenv("TOWPATH_HOME")
    assert Home.default().root == Path.home() / ".towpath"


def test_mesh_when_sites_are_added_by_name_then_its_other_settings_stay(tmp_path: Path) -> None:
    home = Home(tmp_path)
    settings = {
        "sites": [{"name": "jfk"}],
        "listen": "0.0.0.0",
        "coordinators": 3,
        "tls": {"allow_plain": True},
    }
    before = provision(home, parse_spec(settings)).spec

    after = provision(home, spec_of_sites("lga")).spec

    assert [site.name for site in after.sites] == ["jfk", "lga"]
    assert after.model_copy(update={"sites": before.sites}) == before
