"""Each part of a mesh gets its own secrets and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.site import Addresses
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.settings import spec_of_sites
from towpath.mesh.state import MeshState
from towpath.mesh.views import service_view, site_view

THERE = Addresses(hub="hub", redis="redis", links="links")


@pytest.fixture
def state(tmp_path: Path) -> MeshState:
    spec = spec_of_sites("jfk,cloud").model_copy(update={"emulate_links": True})
    return provision(Home(tmp_path), spec)


def secrets_in(view: MeshState, state: MeshState) -> set[str]:
    """Return the secrets of a mesh that are in a view of it: users, and the API's token."""
    text = view.to_text()
    credentials = re.findall(r'"user": "([^"]+)",\s+"password": "([^"]+)"', state.to_text())
    return {name for name, secret in [*credentials, ("token", state.api_token)] if secret in text}


def test_site_when_given_its_view_then_has_only_its_own_secrets(state: MeshState) -> None:
    view = site_view(state, "jfk", THERE)
    assert secrets_in(view, state) == {
        "jfk",
        "jfk.agent",
        "jfk.engine",
        "jfk.device",
        "jfk.gateway",
        "jfk.leaf",
        "jfk.operator",
        "jfk.storage",
    }
    assert list(view.sites) == ["jfk"]
    assert MeshState.model_validate_json(view.to_text()) == view


@pytest.mark.parametrize("service", ["coordinator", "links"])
def test_service_when_given_its_view_then_finds_all_sites_and_the_others(
    state: MeshState, service: str
) -> None:
    view = service_view(state, service, THERE)
    assert set(view.sites) == {"jfk", "cloud"}
    assert (view.hub_url, view.redis_host) == (f"nats://hub:{state.spec.hub_port}", "redis")


def test_view_when_of_a_site_that_is_not_there_then_is_refused(state: MeshState) -> None:
    with pytest.raises(TowpathError, match="no such site"):
        site_view(state, "mars", THERE)
