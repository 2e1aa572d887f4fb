"""Checks that every service must pass: those of the table, and a service of one's own."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from towpath.contracts.autopilot import AutopilotMode, AutopilotSpec
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.site import FaultSettings
from towpath.contracts.storage import StorageSpec
from towpath.lab.topology.compose import ComposeSettings, compose
from towpath.lab.topology.secrets import ADDRESSES
from towpath.mesh.home import Home
from towpath.mesh.nats_config import hub_config, site_config
from towpath.mesh.provisioning import provision
from towpath.mesh.service_table import Service, processes_of
from towpath.mesh.settings import spec_of_sites
from towpath.mesh.state import MeshState
from towpath.mesh.views import service_view, site_view
from towpath.supervisor.app import children

SITE = "jfk"
EVERYTHING = {
    "emulate_links": True,
    "faults": FaultSettings(enabled=True),
    "storage": StorageSpec(enabled=True),
    "autopilot": AutopilotSpec(mode=AutopilotMode.PROPOSE),
}
"""Settings of a mesh in which all services run."""

Check = Callable[[Service, Home], None]


def mesh_in(home: Home) -> MeshState:
    return provision(home, spec_of_sites(f"{SITE},cloud").model_copy(update=EVERYTHING))


def scope_of(service: Service) -> str:
    return SITE if service.one_per_site else HUB_SCOPE


def user_of(service: Service, home: Home) -> dict[str, Any]:
    """The service's user in the configuration of its server."""
    mesh = mesh_in(home)
    text = site_config(mesh, SITE, home) if service.one_per_site else hub_config(mesh, home)
    users = json.loads(text)["accounts"]["MESH"]["users"]
    [user] = [user for user in users if user["user"] == service.user(scope_of(service))]
    return user


def program_exists(service: Service, home: Home) -> None:
    assert find_spec(f"{service.module}.__main__") is not None
    assert service.summary[0].islower()
    assert not service.summary.endswith(".")


def user_has_its_rights_its_inbox_and_its_spans_and_no_more(service: Service, home: Home) -> None:
    user, rights = user_of(service, home), service.rights(scope_of(service))
    allowed = user["permissions"]
    assert user["allowed_connection_types"] == ["STANDARD"]
    of_every_service = {"towpath.v1.span.*", "towpath.v1.event.security.refused"}
    assert set(allowed["publish"]["allow"]) == {*rights.publish, *of_every_service}
    assert set(allowed["subscribe"]["allow"]) == {f"_INBOX.{user['user']}.>", *rights.subscribe}
    assert ("allow_responses" in allowed) == rights.answers
    everything = {">", "towpath.>", "towpath.v1.>", "_INBOX.>", "$JS.>"}
    assert everything.isdisjoint([*allowed["publish"]["allow"], *allowed["subscribe"]["allow"]])


def credential_is_its_own_and_is_kept(service: Service, home: Home) -> None:
    mesh = mesh_in(home)
    login = (mesh.sites[SITE] if service.one_per_site else mesh).login(service.name)
    assert mesh.to_text().count(login.password) == 1
    again = provision(home, spec_of_sites(SITE))
    assert (again.logins, again.sites) == (mesh.logins, mesh.sites), "also where settings are left out"


def credential_is_added_to_a_mesh_that_was_saved_before_there_was_the_service(
    service: Service, home: Home
) -> None:
    mesh = mesh_in(home)
    saved = json.loads(home.state.read_text())
    for part in saved["sites"].values() if service.one_per_site else [saved]:
        del part[service.name]
    home.state.write_text(json.dumps(saved))
    upgraded = mesh_in(home)
    assert user_of(service, home)["password"]
    for old, new in [(mesh, upgraded), *zip(mesh.sites.values(), upgraded.sites.values(), strict=True)]:
        assert {**old.logins, service.name: None} == {**new.logins, service.name: None}


def its_view_of_the_mesh_has_no_secret_of_another(service: Service, home: Home) -> None:
    mesh = mesh_in(home)
    credentials = set(re.findall(r'"user": "([^"]+)",\s+"password": "([^"]+)"', mesh.to_text()))
    view = site_view(mesh, SITE, ADDRESSES) if service.one_per_site else None
    view = view or service_view(mesh, service.name, ADDRESSES)
    seen = {user for user, password in credentials if password in view.to_text()}
    if service.one_per_site:
        assert service.user(SITE) in seen
        assert all(user == SITE or user.startswith(f"{SITE}.") for user in seen)
    else:
        own = {getattr(mesh, name) for name in service.secrets if name != "api_token"}
        assert seen == {service.user(HUB_SCOPE), *(credential.user for credential in own)}
        assert (mesh.api_token in view.to_text()) == ("api_token" in service.secrets)


def supervisor_or_agent_starts_it(service: Service, home: Home) -> None:
    mesh = mesh_in(home)
    started = {child.name: child for child in children(mesh, home)}
    name = service.process(scope_of(service))
    assert name in processes_of(mesh.spec, mesh.sites)
    assert (name in started) != service.started_by_agent
    if child := started.get(name):
        assert child.command[:3] == (sys.executable, "-m", service.module)
        assert set(child.after) == set(service.after) <= started.keys()
        assert (child.ready is None) == (service.address is None)


def it_is_restarted_when_what_it_has_read_changes(service: Service, home: Home) -> None:
    mesh = mesh_in(home)
    first = service.settings(mesh, scope_of(service))
    assert first == service.settings(MeshState.load(home), scope_of(service))
    assert all(isinstance(setting, str) for setting in first)


def container_runs_it_and_checks_its_health(service: Service, home: Home) -> None:
    if service.started_by_agent:
        return
    mesh = mesh_in(home)
    part = compose(mesh, ComposeSettings())["services"][SITE if service.one_per_site else service.name]
    assert part["command"][:3] == ["python", "-m", service.module]
    assert part["environment"]["TOWPATH_ALIVE"] in " ".join(part["healthcheck"]["test"])
    assert any(volume.endswith(":/var/lib/towpath") for volume in part["volumes"]) == service.keeps_files
    assert ("ports" in part) == (service.published or service.one_per_site)


def program_shows_that_it_lives(service: Service, home: Home) -> None:
    if service.started_by_agent:
        return
    source = inspect.getsource(import_module(f"{service.module}.app"))
    assert "at_hub(" in source or "showing_life(" in source


CHECKS: list[Check] = [
    program_exists,
    user_has_its_rights_its_inbox_and_its_spans_and_no_more,
    credential_is_its_own_and_is_kept,
    credential_is_added_to_a_mesh_that_was_saved_before_there_was_the_service,
    its_view_of_the_mesh_has_no_secret_of_another,
    supervisor_or_agent_starts_it,
    it_is_restarted_when_what_it_has_read_changes,
    container_runs_it_and_checks_its_health,
    program_shows_that_it_lives,
]


def home_in(directory: Path) -> Home:
    return Home(directory / "home")
