"""The binder of Mosquitto: one that the agent runs, or any running broker of MQTT 3.1.1 or 5.

An existing broker must keep all messages of a persistent session. By default, Mosquitto drops messages
beyond 1,000 while the bridge is away (`max_queued_messages`), and sends 20 at a time
(`max_inflight_messages`).
"""

from __future__ import annotations

from towpath.brokers import mosquitto_config
from towpath.brokers.bridged import BridgedBroker
from towpath.mesh.binaries import mosquitto_binary
from towpath.mesh.device_users import known_devices
from towpath.processes import ChildSpec


class MosquittoBroker(BridgedBroker):
    """A Mosquitto with persistent sessions, or an existing broker."""

    takes_in_devices = True

    def process(self) -> ChildSpec:
        """Return a Mosquitto with its configuration written."""
        access = self.access
        # A container has a program of its own.
        program = "mosquitto" if access.spec.container.is_docker else mosquitto_binary()
        listen, port = access.spec.listen, access.broker_port
        gateway = [access.gateway] if access.gateway is not None else []
        users = [self.bridge, access.client, *gateway]
        devices = known_devices(self.devices)
        names = (user.user for user in users)
        files = {
            "mosquitto.conf": mosquitto_config.configuration(
                self.directory, listen=listen, port=port, tls=access.mqtt_tls
            )
        }
        reread = {
            "passwords": mosquitto_config.passwords(users, self.site, devices),
            "acl": mosquitto_config.access_list(*names, site=self.site, devices=devices),
        }
        return self.child(
            "mosquitto", (program, "-c", str(self.directory / "mosquitto.conf")), files, reread=reread
        )
