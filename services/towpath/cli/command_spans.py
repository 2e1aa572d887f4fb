"""The first span of the work that a command of the command line causes."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

CHANGING = frozenset(
    {"deploy", "update", "migrate", "remove", "link", "publish", "drill"}
    | {"pipeline apply", "pipeline delete", "pipeline retry", "pipeline rollback"}
    | {"faults load", "faults unload"}
)
"""Commands that change something. Looking begins no trace; a scenario's is begun by its run."""

_given: ContextVar[str] = ContextVar("command_given", default="")


def command_given(name: str, *, in_group: bool) -> None:
    """Note the command that is about to run; `in_group`: the next word of its name."""
    _given.set(f"{_given.get()} {name}" if in_group else name)


@contextmanager
def command_span() -> Iterator[None]:
    """Make work inside belong to a span of the given command, if that changes something."""
    # Here: `towpath --help` needs none of it.
    from opentelemetry import trace

    from towpath.telemetry.tracing import is_traced

    name = _given.get()
    if name not in CHANGING or is_traced():
        yield
        return
    known = {"towpath.asked_by": person()}
    with trace.get_tracer("towpath.cli").start_as_current_span(f"towpath {name}", attributes=known):
        yield


def person() -> str:
    """Return who uses the command line: `login@machine`. It is what the system says, and no proof."""
    try:
        login = getpass.getuser()
    except (KeyError, OSError):  # A container may run under a number without a name.
        login = str(os.getuid())
    return re.sub(r"[^A-Za-z0-9@._-]", "-", f"{login}@{socket.gethostname()}")[:100].lstrip("@._-") or "cli"
