"""The parts that the three programs share: settings from stdin, an MQTT client, an end with the benchmark.

Runs in the environment of each engine, so it needs paho and nothing of Towpath.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

IN_FLIGHT = 1_000
"""Results that may await their acknowledgement; a second has 100."""


@dataclass(frozen=True)
class Settings:
    """The broker, the topics, and how windows are cut: the same for every engine."""

    host: str
    port: int
    user: str
    password: str
    events: str
    """Topic of the events."""
    results: str
    """Topic of the results."""
    size_s: float
    """Length of a window, seconds of the time that events carry."""
    allowed_s: float
    """Delay behind the newest event with which an event still counts, seconds."""


def settings() -> Settings:
    """Return the settings from the first line of stdin. When stdin ends, this process does, too."""
    read = Settings(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return read


def connected(chosen: Settings, on_event: Callable[[bytes], None] | None = None, *, client_id: str) -> Client:
    """Return a client that a thread of paho's own serves. With `on_event`, it subscribes with QoS 1."""
    client = Client(CallbackAPIVersion.VERSION2, client_id=client_id)
    client.username_pw_set(chosen.user, chosen.password)
    client.max_inflight_messages_set(IN_FLIGHT)
    if on_event is not None:

        def received(client: Client, userdata: object, message: MQTTMessage) -> None:
            on_event(message.payload)

        client.on_message = received
        client.on_connect = lambda client, *_: client.subscribe(chosen.events, qos=1)
    client.connect(chosen.host, chosen.port)
    client.loop_start()
    return client


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)
