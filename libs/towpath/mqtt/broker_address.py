"""Address of an MQTT broker, and clients for it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY, Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

WINDOW = 1000
"""Messages that a broker of MQTT 5 may send before it has an acknowledgement.

A broker of 3.1.1 has a window of its own. Mosquitto 2.0 sends a whole backlog when a session returns."""

MQTT_3_1_1 = "3.1.1"
"""Version that every broker speaks, nats-server among them."""

CONNECT_WITHIN_S = 5.0
"""Time for the broker's host to accept the connection."""

_KEEPALIVE_S = 15
_NO_EXPIRY = 0xFFFFFFFF


@dataclass(frozen=True)
class BrokerAddress:
    """Address, credentials and protocol version of a broker."""

    host: str
    port: int
    version: str = "5"
    """Version of MQTT: `3.1.1` or `5`."""
    user: str | None = None
    password: str | None = None
    tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_5(self) -> bool:
        """True if the broker speaks MQTT 5."""
        return self.version == "5"

    def client(self, client_id: str, *, session: bool) -> Client:
        """Return a client that is not connected yet. With `session`, the broker remembers it."""
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=MQTTProtocolVersion.MQTTv5 if self.is_5 else MQTTProtocolVersion.MQTTv311,
            clean_session=None if self.is_5 else not session,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = CONNECT_WITHIN_S
        client.max_inflight_messages_set(0)  # The caller keeps the window.
        if self.user:
            client.username_pw_set(self.user, self.password)
        return client

    def connect(self, client: Client, *, session: bool) -> None:
        """Open the client's connection. Blocks. Raises `OSError`."""
        if self.tls:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file is not None:
                context.load_cert_chain(self.certificate_file, self.key_file)
            client.tls_set_context(context)
        if not self.is_5:
            client.connect(self.host, self.port, _KEEPALIVE_S)
            return
        properties = Properties(PacketTypes.CONNECT)
        properties.ReceiveMaximum = WINDOW
        if session:
            properties.SessionExpiryInterval = _NO_EXPIRY
        clean = False if session else MQTT_CLEAN_START_FIRST_ONLY
        client.connect(self.host, self.port, _KEEPALIVE_S, clean_start=clean, properties=properties)
