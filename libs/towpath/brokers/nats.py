"""The binder of the site's own server: its MQTT listener is the broker, its JetStream the log."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.processes import ChildSpec


class NatsBroker:
    """Nothing is to be carried: the server acknowledges a device when IN has stored its event, and output
    streams republish to the topics of their subscribers."""

    def create(self) -> Sequence[ChildSpec]:
        """None: a site runs this server whatever its broker."""
        return ()

    async def mirror(self) -> None:
        """The server does it."""

    async def publish(self) -> None:
        """The server does it."""

    def trouble(self) -> str | None:
        """None: what is wrong with the server shows in its process."""
        return None
