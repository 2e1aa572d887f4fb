"""`towpath device` shows a password once, keeps only hashes, and refuses what it cannot do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from towpath.cli.__main__ import app
from towpath.contracts.message import now
from towpath.contracts.site import BrokerKind, BrokerSpec, MeshSpec, SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.joining import invited
from towpath.mesh.provisioning import provision

SITES = (
    SiteSpec(name="jfk"),
    SiteSpec(name="plant", broker=BrokerSpec(kind=BrokerKind.MOSQUITTO, host="broker.example.org")),
    SiteSpec(name="dark", broker=BrokerSpec(shared_device=False)),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = Home(tmp_path / "home")
    mesh = provision(home, MeshSpec(sites=[*SITES]))
    with_barge, _ = invited(mesh, SiteSpec(name="barge"), "127.0.0.1", 60.0, now())
    with_barge.save(home)
    return home.root


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), *arguments])


def test_device_when_added_then_its_password_is_printed_once_and_only_hashes_are_kept(home: Path) -> None:
    added = run(
        home, "device", "add", "press", "--site", "jfk", "--publish", "site/press/#", "--subscribe", "stats/+"
    )
    listed = json.loads(run(home, "device", "list", "--json").stdout)

    password, kept = added.stdout.strip(), Home(home).devices("jfk")
    assert (added.exit_code, len(password), "not in effect yet" in added.stderr) == (0, 48, True)
    assert [(one["user"], one["publish"], one["subscribe"]) for one in listed] == [
        ("jfk.device.press", ["site/press"], ["stats/+"])
    ]
    assert password not in kept.read_text() + json.dumps(listed) + run(home, "device", "list").stdout
    assert kept.stat().st_mode & 0o777 == 0o600
    assert run(home, "device", "revoke", "press", "--site", "jfk").stdout == "revoked press\n"
    assert json.loads(run(home, "device", "list", "--json").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "press", "--site", "lga"), "no such site"),
        (("add", "press", "--site", "barge"), "another machine"),
        (("add", "press", "--site", "plant"), "its administrator manages its users"),
        (("add", "press", "--site", "jfk", "--publish", "stats/x"), "site/…"),
        (("add", "press", "--site", "jfk", "--publish", "site/+/x"), "site/+/x"),
        (("add", "press", "--site", "jfk", "--subscribe", "site/#"), "no device may read these topics"),
        (("add", "press", "--site", "jfk", "--subscribe", "a/#/b"), "a/#/b"),
        (("add", "the.press", "--site", "jfk"), "the.press"),
        (("revoke", "press", "--site", "jfk"), "no such device"),
        (("add", "press"), "--site"),
    ],
)
def test_command_when_its_input_is_bad_then_ends_with_2_and_one_line(
    home: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = run(home, "device", *arguments)
    assert (result.exit_code, result.stderr.count("\n"), result.stdout) == (2, 1, "")
    assert said in result.stderr


def test_device_when_its_name_is_in_use_then_the_first_one_stays(home: Path) -> None:
    run(home, "device", "add", "press", "--site", "jfk")
    kept = Home(home).devices("jfk").read_text()

    assert run(home, "device", "add", "press", "--site", "jfk").exit_code == 2
    assert Home(home).devices("jfk").read_text() == kept


def test_access_when_devices_share_no_user_then_shows_none(home: Path) -> None:
    rows = {row["who"]: row for row in json.loads(run(home, "access", "--json").stdout)}
    assert rows["devices and subscribers at dark"]["user"] == ""
    assert rows["devices and subscribers at jfk"]["user"] == "jfk.device"
