"""A broker of MQTT beside the site's server, and the bridge to it. A subclass starts the broker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.brokers.intake import Intake
from towpath.brokers.outlet import Outlet
from towpath.brokers.session_file import SessionFile
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.broker_description import broker_password, check_broker
from towpath.mesh.credentials import bridge_session
from towpath.mesh.home import Home
from towpath.mesh.servers import port_open
from towpath.mesh.site_broker import site_broker
from towpath.mesh.state import SiteAccess, reachable
from towpath.mqtt.broker_address import BrokerAddress
from towpath.processes import ChildSpec, version_of

STOP_S = 5.0
"""Time for a broker to write its sessions when it ends."""


class BridgedBroker(ABC):
    """See `BrokerBinder`. Its broker is one that the agent runs, or one that runs elsewhere already."""

    takes_in_devices = False
    """Its process has users for the devices in `devices`, and reads them again on SIGHUP."""

    def __init__(self, access: SiteAccess, home: Home) -> None:
        if access.bridge is None:
            raise TowpathError(
                ErrorCode.INVALID,
                "the mesh has no credentials for a bridge",
                field="broker.kind",
                value=str(access.spec.broker.kind),
                allowed="a mesh brought up with this broker: run `towpath up` again",
            )
        self.access = access
        self.bridge = access.bridge
        """Credentials of the bridge at a broker that the agent runs."""
        self.directory = home.broker(access.spec.name)
        """Files of the broker and the bridge. They are private."""
        self.site = access.spec.name
        self.devices = home.devices(self.site)
        """File with the users of single devices."""
        self._home = home
        # The id never changes and no other mesh has it, because the broker recognises the session by it.
        client_id = f"towpath-{access.spec.name}-{access.bridge_session or bridge_session(access.bridge)}"
        filters = access.spec.broker.subscribe
        file = SessionFile(self.directory / "bridge.json")
        self._intake = Intake(access, self._address, client_id, filters, file)
        self._outlet = Outlet(access, self._address, f"{client_id}-results", lambda: file.load().since)

    @abstractmethod
    def process(self) -> ChildSpec:
        """Return the process of a broker for this site, with its configuration written. See `child`.

        It listens at `access.spec.listen` on `access.broker_port`, and lets in `bridge`, `access.client`, and
        the users in `devices` if it `takes_in_devices`. Raises `TowpathError` when the program is missing.
        """

    def create(self) -> Sequence[ChildSpec]:
        """Return the broker's process. None where the broker runs elsewhere."""
        return () if self.access.spec.broker.host is not None else (self.process(),)

    def child(
        self,
        name: str,
        command: Sequence[str],
        files: Mapping[str, str],
        *,
        reread: Mapping[str, str] | None = None,
    ) -> ChildSpec:
        """Write configuration files into the broker's directory. Return the process that reads them.

        The agent restarts it when its configuration has changed. `reread` are files that the broker reads
        again on SIGHUP: when only these have changed, it is not restarted.
        """
        directory = make_private_directory(self.directory)
        for file, text in {**files, **(reread or {})}.items():
            write_private_file(directory / file, text)
        host, port = self.access.spec.listen, self.access.broker_port

        async def ready() -> bool:
            return await port_open(reachable(host), port)

        process = f"{self.access.spec.name}-{name}"
        return ChildSpec(
            name=process,
            command=tuple(command),
            log=self._home.log(process),
            ready=ready,
            stop_s=STOP_S,
            version=version_of("".join(files.values())),
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
        access, broker = self.access, self.access.spec.broker
        if broker.host is None:
            return site_broker(access, self.bridge, broker.version)
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
