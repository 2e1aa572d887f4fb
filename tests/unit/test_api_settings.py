"""A mesh gives its REST interface a port and a token once, and keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from towpath.api.settings import ApiSettings
from towpath.contracts.errors import TowpathError
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.settings import spec_of_sites


def test_token_and_port_when_the_mesh_grows_then_stay(tmp_path: Path) -> None:
    provision(Home(tmp_path), spec_of_sites("jfk"))
    before = ApiSettings.from_home(tmp_path)
    provision(Home(tmp_path), spec_of_sites("lga"))
    assert ApiSettings.from_home(tmp_path) == before
    assert len(before.token) >= 32
    assert (before.listen, before.hub_user) == ("127.0.0.1", "hub.api")


def test_mesh_when_it_is_from_before_there_was_rest_then_gets_it_at_its_next_start(tmp_path: Path) -> None:
    home = Home(tmp_path)
    provision(home, spec_of_sites("jfk"))
    old = json.loads(home.state.read_text())
    del old["api"], old["api_token"], old["spec"]["api_port"]
    home.state.write_text(json.dumps(old))
    with pytest.raises(TowpathError, match="no port for the REST interface"):
        ApiSettings.from_home(tmp_path)
    provision(home, spec_of_sites("jfk"))
    first = ApiSettings.from_home(tmp_path)
    assert first.port > 0
    assert ApiSettings.from_home(tmp_path) == first, "a new setting is kept"


def test_port_when_it_is_another_listener_s_then_is_refused(tmp_path: Path) -> None:
    spec = spec_of_sites("jfk").model_copy(update={"api_port": 4222, "hub_port": 4222})
    with pytest.raises(TowpathError, match="two listeners on one port"):
        provision(Home(tmp_path), spec)
