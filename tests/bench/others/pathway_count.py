"""Count events per sensor and second with Pathway: its own MQTT connectors, JSON in and out."""

from __future__ import annotations

import logging
from datetime import timedelta
from urllib.parse import quote

import pathway as pw
from connection import settings

COMMIT_MS = 100
"""Interval between commits. The connector's default, 1,500 ms, is longer than a window."""

TIME = "%Y-%m-%dT%H:%M:%S%.fZ"


class Report(pw.Schema):
    """The fields of an event that the count needs."""

    sensor: str
    at: str


def main() -> None:
    """Run until stdin ends."""
    chosen = settings()
    login = f"{quote(chosen.user)}:{quote(chosen.password)}"
    broker = f"mqtt://{login}@{chosen.host}:{chosen.port}/?client_id="
    events = pw.io.mqtt.read(
        f"{broker}pathway-in",
        chosen.events,
        qos=1,
        schema=Report,
        format="json",
        autocommit_duration_ms=COMMIT_MS,
    ).select(pw.this.sensor, at=pw.this.at.dt.strptime(TIME))
    counts = events.windowby(
        pw.this.at,
        window=pw.temporal.tumbling(duration=timedelta(seconds=chosen.size_s)),
        instance=pw.this.sensor,
        behavior=pw.temporal.exactly_once_behavior(shift=timedelta(seconds=chosen.allowed_s)),
    ).reduce(
        start=pw.this._pw_window_start.dt.strftime("%Y-%m-%dT%H:%M:%S"),
        sensor=pw.this._pw_instance,
        count=pw.reducers.count(),
    )
    pw.io.mqtt.write(counts, f"{broker}pathway-out", chosen.results, qos=1, format="json")
    # Its own logging writes a line for each packet.
    logging.basicConfig(level=logging.WARNING)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, default_logging=False)


if __name__ == "__main__":
    main()
