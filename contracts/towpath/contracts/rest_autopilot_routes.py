"""Routes of the autopilot, as in `towpath.contracts.rest_routes`."""

from __future__ import annotations

from towpath.contracts.autopilot import (
    AnnounceWindow,
    ApproveDecision,
    RefuseDecision,
    ShowAutopilot,
    WithdrawWindow,
)
from towpath.contracts.errors import ErrorCode
from towpath.contracts.rest import Body, Route, fields_of
from towpath.contracts.role import OPERATE, VIEW

_DECISION = {"id": "decision"}

AUTOPILOT = (
    Route(
        "GET",
        "/autopilot",
        VIEW,
        "showAutopilot",
        ShowAutopilot,
        query=fields_of(ShowAutopilot, "AutopilotQuery", "limit"),
    ),
    Route(
        "POST",
        "/autopilot/windows",
        OPERATE,
        "announceWindow",
        AnnounceWindow,
        body=Body(
            fields_of(
                AnnounceWindow, "WindowToAnnounce", "site", "cause", "factor", "begins", "ends", "note"
            ),
            example={k: v for k, v in AnnounceWindow.example.items() if k != "id"},
        ),
    ),
    Route(
        "DELETE",
        "/autopilot/windows/{id}",
        OPERATE,
        "withdrawWindow",
        WithdrawWindow,
        path_fields={"id": "window"},
        addressed=ErrorCode.UNKNOWN_WINDOW,
    ),
    Route(
        "POST",
        "/autopilot/decisions/{id}/approve",
        OPERATE,
        "approveDecision",
        ApproveDecision,
        path_fields=_DECISION,
        addressed=ErrorCode.UNKNOWN_DECISION,
    ),
    Route(
        "POST",
        "/autopilot/decisions/{id}/refuse",
        OPERATE,
        "refuseDecision",
        RefuseDecision,
        path_fields=_DECISION,
        addressed=ErrorCode.UNKNOWN_DECISION,
    ),
)
