"""Packages of others that are loaded when they are first used, not when they are imported.

Import this before a package that imports one of them without needing it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

SELDOM_USED = frozenset({"aiohttp"})
"""nats-py imports it for web sockets, which no connection of ours is: a tenth of a second in each process."""


class SeldomUsed(MetaPathFinder):
    """Finds packages that are seldom used, and lets them be loaded at the first look into them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        found = PathFinder.find_spec(fullname, path, target) if fullname in SELDOM_USED else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


sys.meta_path.insert(0, SeldomUsed())
