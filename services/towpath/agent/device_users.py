"""Have a site's broker take in the users of its devices while it runs, see `towpath.mesh.device_users`.

The agent compares the file with what the broker has read last, and not with what was done about it. So a step
that is lost, repeated, or cut short by SIGKILL does no harm:

- killed before the configuration is written, or before SIGHUP: the next agent's first look does both again.
- a broker that starts reads the newest configuration anyway.
- SIGHUP without a change: the broker reads the same users, and no one notices.
- nats-server refuses the configuration, because another file that it names is unreadable: it goes on with its
  old users, the log tells, and the agent tries again until it is taken.

Connections of users that stay, and their sessions, are not touched. Those of a revoked user end at once.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

from nats.errors import Error as NatsError

from towpath.agent.broker_configuration import BrokerConfiguration
from towpath.atomic_write import content_state
from towpath.contracts.errors import TowpathError
from towpath.mesh.device_users import note_taken_in, saved_devices
from towpath.mesh.home import Home

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.3
"""Between two looks at the file. To ask for its state takes microseconds."""

RETRY_S = 5.0
"""After a failure, which seldom passes by itself."""


class DeviceUsers:
    """Watches the file with a site's devices."""

    def __init__(self, home: Home, site: str, configuration: BrokerConfiguration) -> None:
        """The broker's `configuration` has the users."""
        self._home = home
        self._site = site
        self._configuration = configuration

    async def watch(self) -> None:
        """Look until cancelled. The first look has the broker read its configuration, unless it just has.

        nats-server, told to read while its first MQTT client since its start connects, lets that one wait for
        `MQTT_STORE_WAIT`. So one that has just started is not told.
        """
        path, taken_in, known = self._home.devices(self._site), False, None
        state = content_state(path)
        if state is None:
            taken_in = True  # There never was a device. The broker is not bothered.
        elif await self._has_read():
            taken_in, known = True, state
            await asyncio.to_thread(note_taken_in, path, state)
        while True:
            state = content_state(path)
            try:
                if (not taken_in or state != known) and await self._take_in():
                    taken_in, known = True, state
                    await asyncio.to_thread(note_taken_in, path, state)
            except (TowpathError, NatsError, OSError, TimeoutError) as error:
                log.error("the broker has not taken in the users of devices: %s", error or "no answer")
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _has_read(self) -> bool:
        """Return True if the server has certainly read what the file says now."""
        users, configuration = self._home.devices(self._site), self._home.nats(self._site) / "nats.conf"
        try:
            changed = users.stat().st_mtime if users.exists() else 0.0
            written = configuration.stat().st_mtime
            read = await self._configuration.loaded_at()
        except (NatsError, OSError, TimeoutError):
            return False
        return read is not None and changed + 1.0 < written < datetime.fromisoformat(read).timestamp()

    async def _take_in(self) -> bool:
        """Return False if the broker is not ready. Raises when it has not read the configuration."""
        await asyncio.to_thread(saved_devices, self._home.devices(self._site))  # Raises if it is unreadable.
        return await self._configuration.take_in()
