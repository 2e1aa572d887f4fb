"""What a broker must be able to do to serve the devices of a site.

Whatever the broker, a site's own server keeps the log: the IN stream with what devices send, an output
stream for each job, mirrors of other sites' streams. A binder leads from the broker into that log and back.
A new broker is one new file with a class of this shape, and one line in `binders.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from towpath.processes import ChildSpec


class BrokerBinder(Protocol):
    """One broker of one site, as its agent sees it."""

    def create(self) -> Sequence[ChildSpec]:
        """The processes that the agent is to keep running for it; none for a broker that runs elsewhere.

        Writes their configuration. Raises `TowpathError` when a program is missing. The agent's supervisor
        starts, watches and stops them.
        """
        ...

    async def mirror(self) -> None:
        """Bring what devices send into the IN stream, each event once, in the order of its topic.

        An event may be acknowledged to the broker only after the stream has stored it. Runs until it is
        cancelled, and heals by itself; returns at once where the broker stores events itself.
        """
        ...

    async def publish(self) -> None:
        """Bring what the output streams store to the broker, in order, from where it stood.

        Runs until it is cancelled, and heals by itself; returns at once where the broker sees outputs itself.
        """
        ...

    def trouble(self) -> str | None:
        """Why devices or subscribers are not served at the moment, in one line; None when they are."""
        ...
