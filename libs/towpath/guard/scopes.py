"""Which scope a process of a mesh belongs to, by its name."""

from __future__ import annotations

from towpath.contracts.faults import HUB_SCOPE
from towpath.mesh.home import Home


def guard_name(scope: str) -> str:
    """The process name of the guard of a scope."""
    return f"{scope}-guard"


def scope_of(home: Home, process: str) -> str:
    """The site whose name the process's begins with, or `hub`. Of two such sites the longer name counts."""
    sites = (path.name for path in (home.root / "sites").glob("*"))
    fitting = [site for site in sites if process.startswith(f"{site}-")]
    return max(fitting, key=len, default=HUB_SCOPE)
