"""Routes of broadcasts, as in `towpath.contracts.rest_routes`."""

from __future__ import annotations

from towpath.contracts.broadcast import ListBroadcasts, SendBroadcast, ShowBroadcast
from towpath.contracts.errors import ErrorCode
from towpath.contracts.rest import Body, Route, fields_of
from towpath.contracts.role import OPERATE, VIEW

BROADCAST_FIELDS = ("topic", "payload", "base64", "sites", "expires_s")

BROADCASTS = (
    Route(
        "POST",
        "/broadcasts",
        OPERATE,
        "sendBroadcast",
        SendBroadcast,
        keyed=True,
        body=Body(
            fields_of(SendBroadcast, "BroadcastToSend", *BROADCAST_FIELDS),
            example={name: value for name, value in SendBroadcast.example.items() if name != "id"},
        ),
    ),
    Route("GET", "/broadcasts", VIEW, "listBroadcasts", ListBroadcasts),
    Route(
        "GET",
        "/broadcasts/{id}",
        VIEW,
        "showBroadcast",
        ShowBroadcast,
        path_fields={"id": "broadcast"},
        addressed=ErrorCode.UNKNOWN_COMMAND,
    ),
)
