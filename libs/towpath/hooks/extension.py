"""The extension of this process: a module that the environment names. Without one, nothing happens here.

The supervisor names it when the mesh's settings switch fault rules on. Its module offers:

- `watch()`: begin to carry out rules in this process;
- `at_site(home, site, bus)`: an asynchronous context manager, in which an agent takes the rules of its site;
- `SPARK_DAEMON`: the module that Spark starts Python workers with;
- `ENVIRONMENT`: names of the environment variables that processes on other machines need, too.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

HOOKS = "TOWPATH_HOOKS"
"""Environment variable: the extension's module."""


def watch() -> None:
    """Start the extension in this process. Cheap when it runs already."""
    if (extension := _extension()) is not None:
        extension.watch()


def at_site(home: Path, site: str, bus: Any) -> AbstractAsyncContextManager[None]:
    """Run the extension in the agent of a site, while the agent has its connection `bus`."""
    extension = _extension()
    return nullcontext() if extension is None else extension.at_site(home, site, bus)


def spark_settings() -> dict[str, str]:
    """Return the settings of Spark that give its Python workers the extension, also on other machines."""
    extension = _extension()
    if extension is None:
        return {}
    passed_on = {name: os.environ[name] for name in extension.ENVIRONMENT if name in os.environ}
    return {
        "spark.python.daemon.module": extension.SPARK_DAEMON,
        **{f"spark.executorEnv.{name}": value for name, value in passed_on.items()},
    }


def _extension() -> Any:
    name = os.environ.get(HOOKS)
    return import_module(name) if name else None
