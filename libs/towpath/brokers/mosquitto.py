"""The binder of Mosquitto: one that the agent runs, or any running broker of MQTT 3.1.1 or 5.

An existing broker must keep all messages of a persistent session. By default, Mosquitto drops messages
beyond 1,000 while the bridge is away (`max_queued_messages`), and sends 20 at a time
(`max_inflight_messages`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.brokers import mosquitto_config
from towpath.brokers.intake import Intake
from towpath.brokers.outlet import Outlet
from towpath.brokers.session_file import SessionFile
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.binaries import mosquitto_binary
from towpath.mesh.broker_description import broker_password, check_broker
from towpath.mesh.home import Home
from towpath.mesh.servers import port_open
from towpath.mesh.state import SiteAccess, reachable
from towpath.mqtt.broker_address import BrokerAddress
from towpath.processes import ChildSpec

STOP_S = 5.0
"""Time for Mosquitto to write its sessions when it ends."""


class MosquittoBroker:
    """A broker beside the site's server, and the bridge to it."""

    def __init__(self, access: SiteAccess, home: Home) -> None:
        if access.bridge is None:
            raise TowpathError(
                ErrorCode.INVALID,
                "the mesh has no credentials for a bridge",
                field="broker.kind",
                value=str(access.spec.broker.kind),
                allowed="a mesh brought up with this broker: run `towpath up` again",
            )
        self._access = access
        self._bridge = access.bridge
        self._directory = home.broker(access.spec.name)
        self._log = home.log(f"{access.spec.name}-mosquitto")
        # The id never changes and no other mesh has it, because the broker recognises the session by it.
        mesh = hashlib.blake2b(access.bridge.password.encode(), digest_size=4).hexdigest()
        client_id = f"towpath-{access.spec.name}-{mesh}"
        filters = access.spec.broker.subscribe
        file = SessionFile(self._directory / "bridge.json")
        self._intake = Intake(access, self._address, client_id, filters, file)
        self._outlet = Outlet(access, self._address, f"{client_id}-results", lambda: file.load().since)

    def create(self) -> Sequence[ChildSpec]:
        """Return a Mosquitto with its configuration written. None where the broker runs elsewhere."""
        access = self._access
        if access.spec.broker.host is not None:
            return ()
        # A container has a user of its own.
        program = "mosquitto" if access.spec.container.is_docker else mosquitto_binary()
        directory = make_private_directory(self._directory)
        host, port = access.spec.listen, access.broker_port
        texts = {
            "mosquitto.conf": mosquitto_config.configuration(directory, listen=host, port=port),
            "passwords": mosquitto_config.passwords([self._bridge, access.device]),
            "acl": mosquitto_config.access_list(self._bridge.user, access.device.user),
        }
        for name, text in texts.items():
            write_private_file(directory / name, text)

        async def ready() -> bool:
            return await port_open(reachable(host), port)

        return (
            ChildSpec(
                name=f"{access.spec.name}-mosquitto",
                command=(program, "-c", str(directory / "mosquitto.conf")),
                log=self._log,
                ready=ready,
                stop_s=STOP_S,
                version=hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:16],
            ),
        )

    async def mirror(self) -> None:
        """Carry messages from the broker's topics into IN."""
        await self._intake.run()

    async def publish(self) -> None:
        """Carry results from the output streams to the broker's topics."""
        await self._outlet.run()

    def trouble(self) -> str | None:
        """Return the first problem, or None."""
        return self._intake.trouble or self._outlet.trouble

    def _address(self) -> BrokerAddress:
        """Return the broker's address and credentials. Raises `TowpathError` for a missing file."""
        access, broker = self._access, self._access.spec.broker
        if broker.host is None:
            own = self._bridge
            host, port = reachable(access.spec.listen).strip("[]"), access.broker_port
            return BrokerAddress(host, port, broker.version, own.user, own.password)
        check_broker(broker)
        return BrokerAddress(
            host=broker.host,
            port=access.broker_port,
            version=broker.version,
            user=broker.user,
            password=broker_password(broker),
            tls=broker.tls,
            ca_file=broker.ca_file,
            certificate_file=broker.certificate_file,
            key_file=broker.key_file,
        )
