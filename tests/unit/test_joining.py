"""Machines join once, with keys of their own, and hold none of any other site."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from towpath.cli.machines import _read
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.joining import Bundle, JoinSite
from towpath.contracts.site import BrokerKind, BrokerSpec, MeshSpec, SiteSpec
from towpath.mesh.credentials import bridge_session
from towpath.mesh.current_keys import without_keys
from towpath.mesh.home import Home
from towpath.mesh.joining import (
    admitted,
    invited,
    join_command,
    joining_mesh,
    renewing,
    rotated,
    with_keys_for,
    with_renewed,
    without_site,
)
from towpath.mesh.nats_config import hub_config, site_config
from towpath.mesh.provisioning import new_mesh, provision
from towpath.mesh.redis_config import redis_config
from towpath.mesh.state import MeshState
from towpath.supervisor.app import children

AT = datetime(2026, 1, 1, tzinfo=UTC)
HUB = "192.0.2.10"
HOUR_S = 3600.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path).create()


@pytest.fixture
def mesh() -> MeshState:
    return new_mesh(MeshSpec(sites=[SiteSpec(name="jfk")], listen="0.0.0.0"))


def invite(mesh: MeshState, site: str = "barge") -> tuple[MeshState, Bundle]:
    return invited(mesh, SiteSpec(name=site), HUB, HOUR_S, AT)


def join(mesh: MeshState) -> tuple[MeshState, MeshState]:
    """Return the mesh of the hub's machine, and that of the other one, after it has joined."""
    asking, bundle = invite(mesh)
    own = joining_mesh(Bundle.from_json(bundle.model_dump_json()))
    return admitted(asking, join_command(own.site("barge")), AT), own


def users(config: str) -> set[str]:
    return {user["user"] for user in json.loads(config)["accounts"]["MESH"]["users"]}


def test_bundle_when_it_is_made_then_has_no_key_but_the_invitation(mesh: MeshState) -> None:
    changed, bundle = invite(mesh)

    text = bundle.model_dump_json()
    secrets = {
        login.password
        for access in changed.sites.values()
        for login in (access.leaf, access.redis, access.device, *access.logins.values())
        if login.password
    } | {changed.operator.password, changed.redis_coordinator.password, changed.api_token}
    assert not [secret for secret in secrets if secret in text]
    assert bundle.mesh.addresses.hub == bundle.mesh.addresses.redis == HUB
    assert [site.name for site in bundle.mesh.sites] == ["barge"]


def test_bundle_when_a_later_version_made_it_then_its_other_fields_are_passed_over(
    mesh: MeshState, tmp_path: Path
) -> None:
    _, bundle = invite(mesh)
    made = {**json.loads(bundle.model_dump_json()), "of_later": 1}
    made["mesh"]["of_later"] = made["mesh"]["sites"][0]["of_later"] = 1
    file = tmp_path / "barge.bundle"
    file.write_text(json.dumps(made))

    assert _read(file) == bundle


def test_invitation_when_it_is_open_then_its_user_can_only_join(mesh: MeshState, home: Home) -> None:
    changed, bundle = invite(mesh)

    [guest] = [
        user
        for user in json.loads(hub_config(changed, home))["accounts"]["MESH"]["users"]
        if user["user"] == bundle.invitation.user
    ]
    assert guest["permissions"]["publish"]["allow"] == [JoinSite.subject]
    assert guest["permissions"]["subscribe"]["allow"] == ["_INBOX.barge.join.>"]
    assert "barge.leaf" not in users(hub_config(changed, home))
    assert "user barge " not in redis_config(changed, home)


def test_machine_when_it_has_joined_then_hub_and_site_have_the_same_keys(mesh: MeshState, home: Home) -> None:
    hub, own = join(mesh)

    there, here = hub.site("barge"), own.site("barge")
    assert (there.leaf, there.redis) == (here.leaf, here.redis)
    assert users(hub_config(hub, home)) >= {"barge.leaf", "jfk.leaf"}
    assert f"{here.leaf.password}@{HUB}:{hub.leaf_port}" in site_config(own, "barge", home)


def test_machine_when_it_has_joined_then_keeps_the_keys_of_its_site_to_itself(mesh: MeshState) -> None:
    hub, own = join(mesh)

    kept = hub.site("barge").model_dump_json()
    private = [own.site("barge").device, *own.site("barge").logins.values()]
    assert not [login.user for login in private if login.password in kept]
    assert own.sites.keys() == {"barge"}
    assert (own.operator.password, own.redis_coordinator.password, own.supervisor) == ("", "", None)
    assert not [name for name, login in own.logins.items() if login.password]


def test_join_when_it_is_repeated_then_changes_nothing_and_other_keys_are_refused(mesh: MeshState) -> None:
    hub, own = join(mesh)
    command = join_command(own.site("barge"))

    assert admitted(hub, command, AT + timedelta(days=1)) is hub
    with pytest.raises(TowpathError, match="was used already"):
        admitted(hub, command.model_copy(update={"leaf": "0" * 48}), AT)


@pytest.mark.parametrize("is_renewing", [False, True])
def test_join_when_the_sender_holds_the_invitation_of_another_site_then_is_refused(
    mesh: MeshState, *, is_renewing: bool
) -> None:
    """A stolen site has its invitation, used or not, and its login at the hub can ask as any site."""
    hub, stolen = join(mesh)
    asking, bundle = invite(hub, "ship")
    if is_renewing:
        command = join_command(joining_mesh(bundle).site("ship"))
        asking, bundle = renewing(admitted(asking, command, AT), "ship", None, HOUR_S, AT)
    forged = join_command(stolen.site("barge")).model_copy(update={"site": "ship"})

    for proof in (forged.proof, None):
        with pytest.raises(TowpathError, match="not the invitation of this site"):
            admitted(asking, forged.model_copy(update={"proof": proof}), AT)
    own = join_command(joining_mesh(bundle).site("ship"))
    assert admitted(asking, own, AT).site("ship").leaf.password == own.leaf


def test_join_when_the_invitation_expired_or_was_replaced_then_is_refused(mesh: MeshState) -> None:
    asking, bundle = invite(mesh)
    command = join_command(joining_mesh(bundle).site("barge"))

    with pytest.raises(TowpathError, match="expired"):
        admitted(asking, command, AT + timedelta(seconds=HOUR_S))
    with pytest.raises(TowpathError, match="no machine is invited"):
        admitted(asking, command.model_copy(update={"site": "jfk"}), AT)
    again, later = invite(asking)
    assert later.invitation.password != bundle.invitation.password
    assert bundle.invitation.password not in again.to_text()


def test_invitation_when_the_hub_listens_on_this_machine_only_then_is_refused() -> None:
    mesh = new_mesh(MeshSpec(sites=[SiteSpec(name="jfk")]))

    with pytest.raises(TowpathError) as refused:
        invite(mesh)

    assert (refused.value.detail.field, refused.value.detail.value) == ("listen", "127.0.0.1")


@pytest.mark.parametrize("site", ["jfk", "barge"])
def test_invitation_when_the_site_is_here_or_has_joined_then_is_refused(mesh: MeshState, site: str) -> None:
    hub, _ = join(mesh)

    with pytest.raises(TowpathError) as refused:
        invite(hub, site)

    assert refused.value.detail.code is ErrorCode.NAME_IN_USE


def test_site_when_it_is_elsewhere_then_its_broker_is_named_as_not_here(mesh: MeshState) -> None:
    hub, _ = join(mesh)

    with pytest.raises(TowpathError, match="runs on another machine"):
        _ = hub.site("barge").mqtt_host


def test_site_when_it_is_removed_then_its_keys_open_nothing(mesh: MeshState, home: Home) -> None:
    hub, _ = join(mesh)

    left = without_site(hub, "barge")

    assert "barge" not in hub_config(left, home) + redis_config(left, home)
    with pytest.raises(TowpathError, match="runs on this machine"):
        without_site(hub, "jfk")


def test_processes_when_a_site_is_elsewhere_then_are_on_its_machine(mesh: MeshState, home: Home) -> None:
    hub, own = join(mesh)

    here = {child.name for child in children(hub, home)}
    there = {child.name for child in children(own, home)}

    assert {"hub", "redis", "coordinator", "jfk-agent"} <= here
    assert there == {"barge-agent"}
    assert not here & there


def test_mesh_when_it_comes_up_again_then_a_site_elsewhere_stays(
    home: Home,
) -> None:
    spec = MeshSpec(sites=[SiteSpec(name="jfk")], listen="0.0.0.0")
    hub, _ = join(provision(home, spec))
    hub.save(home)

    again = provision(home, spec)

    assert again.site("barge") == hub.site("barge").model_copy(update={"invitation": None})
    assert again.sites_here == ["jfk"]


def renew(hub: MeshState) -> tuple[MeshState, Bundle]:
    return renewing(hub, "barge", None, HOUR_S, AT)


def test_keys_when_a_new_bundle_is_out_then_the_old_ones_work_until_the_hub_has_others(
    mesh: MeshState, home: Home
) -> None:
    hub, own = join(mesh)

    asking, bundle = renew(hub)
    waiting = with_keys_for(own, bundle)

    assert asking.site("barge").leaf == waiting.site("barge").leaf == own.site("barge").leaf
    assert "barge.leaf" in users(hub_config(asking, home))
    assert bundle.mesh.addresses.hub == HUB, "the address is that of its last bundle"


def test_hub_when_a_later_bundle_has_another_address_then_the_machine_goes_there(mesh: MeshState) -> None:
    hub, own = join(mesh)
    _, bundle = renewing(hub, "barge", "192.0.2.77", HOUR_S, AT)

    waiting = with_keys_for(own, bundle)

    assert "192.0.2.77" in waiting.hub_url
    assert waiting.site("barge").leaf == own.site("barge").leaf


def test_keys_when_the_bundle_is_redeemed_then_are_others_and_the_old_ones_are_at_neither_end(
    mesh: MeshState, home: Home
) -> None:
    hub, own = join(mesh)
    asking, bundle = renew(hub)
    waiting = with_keys_for(own, bundle)
    assert waiting.renewed is not None

    there = admitted(asking, join_command(waiting.renewed), AT)
    here = with_renewed(waiting, waiting.renewed)

    access = here.site("barge")
    assert (there.site("barge").leaf, there.site("barge").redis) == (access.leaf, access.redis)
    old = own.site("barge")
    gone = [old.leaf, old.redis, old.operator, *old.logins.values()]
    kept = there.to_text() + here.to_text() + hub_config(there, home) + site_config(here, "barge", home)
    assert not [login.user for login in gone if login and login.password in kept]
    assert (access.device, access.gateway) == (old.device, old.gateway), "devices would have to be told"
    assert without_keys(access) == without_keys(old), "or the agent would restart"


def test_keys_when_a_step_is_repeated_then_are_those_that_were_begun_with(mesh: MeshState) -> None:
    hub, own = join(mesh)
    asking, bundle = renew(hub)
    waiting = with_keys_for(own, bundle)
    assert waiting.renewed is not None
    command = join_command(waiting.renewed)
    there = admitted(asking, command, AT)

    assert with_keys_for(waiting, bundle) is waiting
    assert admitted(there, command, AT + timedelta(days=1)) is there
    done = with_renewed(waiting, waiting.renewed)
    assert with_keys_for(done, bundle) is done
    with pytest.raises(TowpathError, match="was used already"):
        admitted(there, command.model_copy(update={"leaf": "0" * 48}), AT)


def test_keys_when_their_thief_has_no_bundle_then_cannot_replace_them(mesh: MeshState) -> None:
    hub, own = join(mesh)
    command = join_command(own.site("barge"))

    with pytest.raises(TowpathError, match="was used already"):
        admitted(hub, command.model_copy(update={"leaf": "0" * 48}), AT)


def test_keys_when_devices_are_told_then_are_all_others(mesh: MeshState) -> None:
    before = mesh.site("jfk")

    after = rotated(mesh, "jfk", with_devices=True).site("jfk")

    assert after.device != before.device
    assert after.gateway != before.gateway
    assert {login.user for login in after.logins.values()} == {login.user for login in before.logins.values()}


def test_bundle_for_other_keys_when_the_site_has_none_yet_then_is_refused(mesh: MeshState) -> None:
    asking, _ = invite(mesh)

    with pytest.raises(TowpathError, match="has no keys yet"):
        renewing(asking, "barge", None, HOUR_S, AT)


def test_bridge_when_its_password_is_replaced_then_its_broker_still_knows_the_session() -> None:
    mesh = new_mesh(MeshSpec(sites=[SiteSpec(name="jfk", broker=BrokerSpec(kind=BrokerKind.MOSQUITTO))]))
    before = mesh.site("jfk").bridge
    assert before is not None

    once = rotated(mesh, "jfk", with_devices=False)
    twice = rotated(once, "jfk", with_devices=False)

    assert once.site("jfk").bridge != before
    assert {mesh.site("jfk").bridge_session for mesh in (once, twice)} == {bridge_session(before)}
