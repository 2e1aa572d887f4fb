"""Rights of single devices at both brokers, and how an agent has a broker take them in."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from running.waiting import WITHIN_S, eventually
from towpath.agent.broker_configuration import BrokerConfiguration
from towpath.agent.broker_refusals import LogTail, refused
from towpath.agent.device_users import DeviceUsers
from towpath.brokers.mosquitto_config import access_list, passwords
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import BrokerKind, BrokerSpec, MeshSpec, SiteSpec
from towpath.mesh.device_users import add_device, is_taken_in, known_devices, revoke_device
from towpath.mesh.home import Home
from towpath.mesh.permissions import device, device_user
from towpath.mesh.provisioning import new_mesh, provision
from towpath.mesh.servers import site_server


def users_of(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())["accounts"]["MESH"]["users"]
    return {user["user"]: user for user in found}


def test_rights_when_topics_are_given_then_hold_for_them_and_what_is_below() -> None:
    rights = device_user(["site/press"], ["stats/#", "alarms/+"])
    assert rights.publish == ["site.press", "site.press.>"]
    assert rights.subscribe == ["stats", "stats.>", "alarms.*"]
    assert rights.deny_subscribe == device().deny_subscribe
    assert device_user(["site"], None).subscribe == device().subscribe


def test_server_when_a_device_is_added_then_is_the_same_process_with_one_user_more(tmp_path: Path) -> None:
    home = Home(tmp_path)
    state = provision(home, MeshSpec(sites=[SiteSpec(name="jfk")]))
    before = site_server(state, "jfk", home)

    login, saved = add_device(home.devices("jfk"), "jfk", "press", ["site/press"])
    after = site_server(state, "jfk", home)

    user = users_of(home.nats("jfk") / "nats.conf")["jfk.device.press"]
    assert (before.version, user["password"]) == (after.version, saved.bcrypt)
    assert login.password not in (home.nats("jfk") / "nats.conf").read_text()
    revoke_device(home.devices("jfk"), "press")
    site_server(state, "jfk", home)
    assert "jfk.device.press" not in users_of(home.nats("jfk") / "nats.conf")


def test_mosquitto_when_a_device_is_added_then_has_its_hash_and_rules(tmp_path: Path) -> None:
    login, saved = add_device(tmp_path / "devices.json", "jfk", "press", ["site/press"], ["stats/#"])
    rules = access_list("bridge", "device", site="jfk", devices=[saved])
    assert rules.endswith("user jfk.device.press\ntopic write site/press/#\ntopic read stats/#\n")
    assert passwords([], "jfk", [saved]) == passwords([login], "jfk", [])


def test_shared_user_when_switched_off_then_commands_have_one_that_devices_never_saw(tmp_path: Path) -> None:
    home, spec = Home(tmp_path), SiteSpec(name="jfk")
    shared = provision(home, MeshSpec(sites=[spec])).site("jfk")
    off = spec.model_copy(update={"broker": BrokerSpec(shared_device=False)})
    state = provision(home, MeshSpec(sites=[off]))

    site_server(state, "jfk", home)

    access, users = state.site("jfk"), users_of(home.nats("jfk") / "nats.conf")
    assert (shared.client.user, access.client.user) == ("jfk.device", "jfk.commands")
    assert "jfk.device" not in users
    assert users["jfk.commands"]["password"] not in (shared.device.password, "")


def test_shared_user_when_the_broker_is_not_towpaths_then_cannot_be_switched_off() -> None:
    broker = BrokerSpec(kind=BrokerKind.MOSQUITTO, host="plant", shared_device=False)
    with pytest.raises(TowpathError) as refused:
        new_mesh(MeshSpec(sites=[SiteSpec(name="jfk", broker=broker)]))
    assert refused.value.detail.field == "broker.shared_device"


def test_file_when_it_is_unreadable_then_lets_no_device_in_and_no_server_fails(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text("{")
    assert known_devices(path) == []


class Broker:
    """Reads its configuration when it is told to, unless it is away or refuses."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.written: list[str] = []
        self.users: list[str] = []
        self.loads = 0
        self.ready = True
        self.tried = asyncio.Event()

    def write(self) -> None:
        self.written = [each.name for each in known_devices(self.home.devices("jfk"))]

    async def reload(self) -> bool:
        self.tried.set()
        if self.ready:
            self.users, self.loads = self.written, self.loads + 1
        return self.ready

    async def loaded_at(self) -> str:
        return str(self.loads)


async def test_agent_when_it_starts_or_the_file_changes_then_the_broker_takes_it_in(tmp_path: Path) -> None:
    home = Home(tmp_path).create_site("jfk")
    path, broker = home.devices("jfk"), Broker(home)
    add_device(path, "jfk", "press")
    broker.ready = False
    configuration = BrokerConfiguration(broker.write, broker.reload, broker.loaded_at)
    task = asyncio.create_task(DeviceUsers(home, "jfk", configuration).watch())
    try:
        await asyncio.wait_for(broker.tried.wait(), WITHIN_S)
        assert not is_taken_in(path)  # A broker that is not ready has not read it.
        broker.ready = True
        await eventually(lambda: is_taken_in(path))
        assert (broker.users, broker.loads) == (["press"], 1)

        revoke_device(path, "press")

        assert not is_taken_in(path)
        await eventually(lambda: is_taken_in(path))
        assert (broker.users, broker.loads) == ([], 2)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


LINE = '[7] 2026/11/27 11:43:01.598715 [ERR] 127.0.0.1:40103 - mid:50 - "c1" - '


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('Publish Violation - Subject "site.other"', ("publish", "site.other", "jfk.device.press")),
        ('Subscription Violation - Subject "a.>", SID a.>', ("subscription", "a.>", "jfk.device.press")),
        ('authentication error - User "jfk.device.gone"', ("login", "", "jfk.device.gone")),
        (r'Replacing old client "h - mid:29 - \"c1\"" since both …', ("client-id", "", "jfk.device.press")),
        (r'Replacing old client "h - mid:51 - \"c1\"" since both …', None),
    ],
)
def test_note_in_the_log_when_it_tells_of_a_refusal_then_is_an_event(
    tmp_path: Path, line: str, told: tuple[str, str, str] | None
) -> None:
    log = tmp_path / "jfk-nats.log"
    log.write_text(f'{LINE}authentication error - User "before the agent"\n')
    tail = LogTail(log)
    users = {"50": "jfk.device.press", "51": "jfk.device.press", "29": "jfk.device.other"}

    with log.open("a") as file:
        file.write(f"{LINE}{line}\nhalf a li")

    [note] = tail.notes()
    found = refused(note, users)
    assert (None if found is None else (found.kind, found.topic, found.who)) == told
    assert tail.notes() == []
