"""The interface of a broker that serves the devices of a site.

With any broker, a site's own server keeps the log: the IN stream with what devices send, an output stream
for each job, and mirrors of other sites' streams. A binder leads from the broker into that log and back.
A new broker is one new file with a class of this shape, one line in `binders.py` and one in `BrokerKind`.
`docs/extending/broker.md` adds one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from towpath.processes import ChildSpec


class BrokerBinder(Protocol):
    """One broker of one site, as its agent uses it."""

    def create(self) -> Sequence[ChildSpec]:
        """Return the processes that the agent must keep running for it: none if the broker runs elsewhere.

        Writes their configuration. Raises `TowpathError` when a program is missing. The agent's supervisor
        starts, watches and stops them.
        """
        ...

    async def mirror(self) -> None:
        """Carry what devices send into the IN stream, each event once, in the order of its topic.

        An event may be acknowledged to the broker only after the stream has stored it. Runs until cancelled
        and recovers by itself. Returns at once where the broker stores events itself.
        """
        ...

    async def publish(self) -> None:
        """Carry what the output streams store to the broker, in order, from where the last run ended.

        Runs until cancelled and recovers by itself. Returns at once where the broker sees outputs itself.
        """
        ...

    def trouble(self) -> str | None:
        """Return one line that tells why devices or subscribers are not served. None when they are."""
        ...
