"""Check for what the engines of sites on this machine need and a bare installation does not have."""

from __future__ import annotations

import importlib.util

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import MeshSpec
from towpath.engines.binders import engine_binder


def check_requirements(spec: MeshSpec) -> None:
    """Make sure that everything is here that the sites of `spec` need. Blocks.

    An agent is a process of this machine wherever its engine runs. Raises `TowpathError` that says what is
    missing, and what installs it.
    """
    agents = {engine_binder(site.engine): None for site in spec.sites}
    engines = {engine_binder(site.engine): None for site in spec.sites if not site.container.is_docker}
    needed = [package for binder in agents for package in binder.agent_packages]
    needed += [package for binder in engines for package in binder.engine_packages]
    missing = [package for package in dict.fromkeys(needed) if importlib.util.find_spec(package) is None]
    if missing:
        raise TowpathError(
            ErrorCode.FAILED,
            f"sites need what is not installed ({', '.join(missing)}): pip install 'towpath[engine]'",
        )
    for binder in engines:
        binder.check_machine()
