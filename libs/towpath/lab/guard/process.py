"""How a guard is started."""

from __future__ import annotations

import sys

from towpath.lab.guard.scopes import guard_name
from towpath.mesh.home import Home
from towpath.processes import ChildSpec, claim


def guard_spec(home: Home, scope: str) -> ChildSpec:
    """The guard of a scope as a process."""
    name = guard_name(scope)
    command = (sys.executable, "-m", "towpath.lab.guard", "--home", str(home.root), "--scope", scope)
    return ChildSpec(name=name, command=command, log=home.log(name))


def again(home: Home, scope: str) -> list[str]:
    """The command that starts a guard in the place of one that died, unless another one has done so."""
    spec = guard_spec(home, scope)
    return [sys.executable, "-I", claim.__file__, str(home.run), spec.name, "", "1", *spec.command]
