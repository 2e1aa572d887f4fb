"""The binder of Mosquitto: one that the agent runs, or any running broker of MQTT 3.1.1 or 5.

An existing broker must keep all messages of a persistent session. By default, Mosquitto drops messages
beyond 1,000 while the bridge is away (`max_queued_messages`), and sends 20 at a time
(`max_inflight_messages`).
"""

from __future__ import annotations

from towpath.brokers import mosquitto_config
from towpath.brokers.bridged import BridgedBroker
from towpath.mesh.binaries import mosquitto_binary
from towpath.processes import ChildSpec


class MosquittoBroker(BridgedBroker):
    """A Mosquitto with persistent sessions, or an existing broker."""

    def process(self) -> ChildSpec:
        """Return a Mosquitto with its configuration written."""
        access = self.access
        # A container has a program of its own.
        program = "mosquitto" if access.spec.container.is_docker else mosquitto_binary()
        listen, port = access.spec.listen, access.broker_port
        gateway = [access.gateway] if access.gateway is not None else []
        files = {
            "mosquitto.conf": mosquitto_config.configuration(
                self.directory, listen=listen, port=port, tls=access.mqtt_tls
            ),
            "passwords": mosquitto_config.passwords([self.bridge, access.device, *gateway]),
            "acl": mosquitto_config.access_list(
                self.bridge.user, access.device.user, *(each.user for each in gateway)
            ),
        }
        return self.child("mosquitto", (program, "-c", str(self.directory / "mosquitto.conf")), files)
