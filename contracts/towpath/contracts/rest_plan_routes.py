"""Routes of deployment plans, as in `towpath.contracts.rest_routes`."""

from __future__ import annotations

from towpath.contracts.errors import ErrorCode
from towpath.contracts.plan_commands import (
    ApplyPlan,
    ListPlans,
    RollbackPlan,
    ShowPlan,
    ShowPlanHistory,
    UninstallPlan,
    UpdatePlan,
)
from towpath.contracts.rest import Body, Route, fields_of
from towpath.contracts.role import OPERATE, VIEW

_PLAN = {"name": "plan"}


PLANS = (
    Route(
        "POST",
        "/plans",
        OPERATE,
        "applyPlan",
        ApplyPlan,
        body=Body(
            fields_of(ApplyPlan, "PlanToApply", "plan", "catalogue"),
            example={name: ApplyPlan.example[name] for name in ("plan", "catalogue")},
        ),
    ),
    Route("GET", "/plans", VIEW, "listPlans", ListPlans),
    Route(
        "GET",
        "/plans/{name}",
        VIEW,
        "showPlan",
        ShowPlan,
        path_fields=_PLAN,
        addressed=ErrorCode.UNKNOWN_PLAN,
    ),
    Route(
        "GET",
        "/plans/{name}/versions",
        VIEW,
        "showPlanHistory",
        ShowPlanHistory,
        path_fields=_PLAN,
        addressed=ErrorCode.UNKNOWN_PLAN,
    ),
    Route(
        "POST",
        "/plans/{name}/update",
        OPERATE,
        "updatePlan",
        UpdatePlan,
        path_fields=_PLAN,
        body=Body(
            fields_of(UpdatePlan, "PlanUpdate", "operation", "arguments"),
            example={name: UpdatePlan.example[name] for name in ("operation", "arguments")},
        ),
        addressed=ErrorCode.UNKNOWN_PLAN,
    ),
    Route(
        "POST",
        "/plans/{name}/rollback",
        OPERATE,
        "rollbackPlan",
        RollbackPlan,
        path_fields=_PLAN,
        body=Body(fields_of(RollbackPlan, "PlanRollback", "version"), optional=True),
        addressed=ErrorCode.UNKNOWN_PLAN,
    ),
    Route(
        "POST",
        "/plans/{name}/uninstall",
        OPERATE,
        "uninstallPlan",
        UninstallPlan,
        path_fields=_PLAN,
        addressed=ErrorCode.UNKNOWN_PLAN,
    ),
)
