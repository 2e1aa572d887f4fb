"""Typed commands, replies and events over NATS."""

from towpath.bus.bus import Bus, Withheld
from towpath.bus.event_log import ensure_events_stream, event_body, follow_events

__all__ = ["Bus", "Withheld", "ensure_events_stream", "event_body", "follow_events"]
