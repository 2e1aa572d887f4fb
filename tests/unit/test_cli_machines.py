"""Machines that have joined: what starts their site, and what is left of its keys when they leave."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from towpath.cli import machines
from towpath.cli.machines import start_site
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import MeshSpec, SiteSpec
from towpath.contracts.tls import TlsSpec
from towpath.mesh.home import Home
from towpath.mesh.joining import invited, joining_mesh
from towpath.mesh.nats_config import site_config
from towpath.mesh.provisioning import new_mesh
from towpath.mesh.state import MeshState


@pytest.fixture
def joined() -> MeshState:
    hub = new_mesh(MeshSpec(sites=[SiteSpec(name="jfk")], listen="0.0.0.0", tls=TlsSpec(enabled=True)))
    _, bundle = invited(hub, SiteSpec(name="barge"), "192.0.2.10", 3600.0, datetime(2026, 1, 1, tzinfo=UTC))
    encrypted = bundle.mesh.model_copy(update={"tls": TlsSpec(enabled=True)})
    return joining_mesh(bundle.model_copy(update={"mesh": encrypted}))


def test_site_when_it_has_no_certificate_yet_then_does_not_start_in_clear(
    joined: MeshState, tmp_path: Path
) -> None:
    home = Home(tmp_path).create()
    joined.save(home)

    with pytest.raises(TowpathError, match="no certificate yet"):
        start_site(home, 1.0, as_json=True)


def test_machine_when_it_leaves_then_no_file_has_its_keys(
    joined: MeshState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines.systemd_unit, "uninstall", lambda name: None)
    home = Home(tmp_path).create()
    home.create_site("barge")
    joined.save(home)
    files = (home.nats("barge") / "nats.conf", home.engine("barge") / "jobs" / "counts" / "setup.json")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(site_config(joined, "barge", home))
    kept = home.nats("barge") / "jetstream" / "events.blk"
    kept.parent.mkdir()
    kept.write_text("data")

    machines._end(home, "barge", as_json=True)

    secret = joined.site("barge").leaf.password
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept in left
    assert [path for path in left if secret in path.read_text()] == []
    assert not home.state.exists()
