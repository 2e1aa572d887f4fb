"""The binder of the site's own server: its MQTT listener is the broker, its JetStream the log."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.processes import ChildSpec


class NatsBroker:
    """Carries nothing: the server does it all.

    It acknowledges a device when IN has stored its event. Output streams republish to the topics of their
    subscribers.
    """

    def create(self) -> Sequence[ChildSpec]:
        """Return no process, because a site runs this server with any broker."""
        return ()

    async def mirror(self) -> None:
        """Return at once, because the server does it."""

    async def publish(self) -> None:
        """Return at once, because the server does it."""

    def trouble(self) -> str | None:
        """Return None, because the server's process shows its problems."""
        return None
