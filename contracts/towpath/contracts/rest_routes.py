"""The REST interface as a table. The server and the OpenAPI document are both made from it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from towpath.contracts.commands import (
    AbortMigration,
    DeployJob,
    FinishMigration,
    ForecastMigration,
    JobView,
    ListJobs,
    ListOperations,
    ListSites,
    MigrateJob,
    OperationKind,
    OperationState,
    RemoveJob,
    ResumeFrom,
    ShowOperation,
    UpdateJob,
)
from towpath.contracts.coordinators import ShowCoordinators
from towpath.contracts.errors import ErrorCode
from towpath.contracts.fault_commands import (
    DescribeFaults,
    ExplainRule,
    ListMetrics,
    ListRules,
    LoadRules,
    RulesToLoad,
    UnloadRules,
)
from towpath.contracts.faults import Rule
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec
from towpath.contracts.live import LiveChange, ReadResults
from towpath.contracts.metrics import DescribeMetrics, QueryMetrics
from towpath.contracts.placement import ProposePlacement
from towpath.contracts.rest import (
    ANY_ERRORS,
    EXPOSITION,
    JSON,
    MERGE_PATCH,
    Body,
    EventsQuery,
    Health,
    PlacementQuery,
    Route,
    SeriesQuery,
    ValuesQuery,
    fields_of,
)
from towpath.contracts.rest_autopilot_routes import AUTOPILOT
from towpath.contracts.rest_broadcast_routes import BROADCASTS
from towpath.contracts.rest_pipeline_routes import PIPELINES
from towpath.contracts.rest_plan_routes import PLANS
from towpath.contracts.rest_query_routes import QUERIES
from towpath.contracts.role import ADMIN, OPERATE, PUBLIC, VIEW
from towpath.contracts.standby import FailOverJob, ForecastFailover, ListStandbys
from towpath.contracts.storage import QueryValues
from towpath.contracts.traces import ListTraces, ShowTrace

_DRY_RUN: Any = (
    bool,
    Field(default=False, description="Only say what it would do, and what it is expected to cost."),
)
_JOB = {"name": "job"}
_OPERATION = {"id": "operation"}

JOBS = (
    Route(
        "POST",
        "/jobs",
        OPERATE,
        "deployJob",
        DeployJob,
        body=Body(JobSpec, field="spec", example=EXAMPLE_SPEC),
        follow="/operations/{operation}",
        created="/jobs/{job}",
    ),
    Route("GET", "/jobs", VIEW, "listJobs", ListJobs),
    Route(
        "GET",
        "/jobs/{name}",
        VIEW,
        "showJob",
        ListJobs,
        summary="One job and how it goes.",
        answer=JobView,
        path_fields=_JOB,
        addressed=ErrorCode.UNKNOWN_JOB,
    ),
    Route(
        "PATCH",
        "/jobs/{name}",
        OPERATE,
        "updateJob",
        UpdateJob,
        path_fields=_JOB,
        query=fields_of(UpdateJob, "UpdateQuery", "drop_state", "force"),
        body=Body(
            JobSpec, field="spec", media_types=(MERGE_PATCH, JSON), patch=True, example={"trigger_s": 2.0}
        ),
        addressed=ErrorCode.UNKNOWN_JOB,
        follow="/operations/{operation}",
    ),
    Route(
        "POST",
        "/jobs/{name}/resume",
        OPERATE,
        "resumeFrom",
        ResumeFrom,
        path_fields=_JOB,
        body=Body(fields_of(ResumeFrom, "ResumeRequest", "start", "inputs"), example={"start": "earliest"}),
        addressed=ErrorCode.UNKNOWN_JOB,
        follow="/operations/{operation}",
    ),
    Route(
        "DELETE",
        "/jobs/{name}",
        OPERATE,
        "removeJob",
        RemoveJob,
        path_fields=_JOB,
        query=fields_of(RemoveJob, "RemoveQuery", "purge", "drain", "force"),
        addressed=ErrorCode.UNKNOWN_JOB,
        follow="/operations/{operation}",
    ),
    Route(
        "GET",
        "/jobs/{name}/results",
        VIEW,
        "readResults",
        ReadResults,
        path_fields=_JOB,
        query=fields_of(ReadResults, "ResultsQuery", "limit"),
        addressed=ErrorCode.UNKNOWN_JOB,
    ),
)

MIGRATIONS = (
    Route(
        "POST",
        "/jobs/{name}/migrations",
        OPERATE,
        "migrateJob",
        MigrateJob,
        path_fields=_JOB,
        query=fields_of(MigrateJob, "MigrateQuery", dry_run=_DRY_RUN),
        body=Body(
            fields_of(
                MigrateJob, "MigrationRequest", "to", "strategy", "check", "factor", "at_most_s", "hold_s"
            ),
            example={"to": "cloud", "strategy": "general"},
        ),
        addressed=ErrorCode.UNKNOWN_JOB,
        follow="/migrations/{operation}",
        created="/migrations/{operation}",
        dry_run=ForecastMigration,
    ),
    Route(
        "GET",
        "/migrations",
        VIEW,
        "listMigrations",
        ListOperations,
        summary="The latest migrations, newest first, without their journals.",
        fixed={"kind": OperationKind.MIGRATE},
        query=fields_of(ListOperations, "MigrationsQuery", "limit"),
    ),
    Route(
        "GET",
        "/migrations/{id}",
        VIEW,
        "showMigration",
        ShowOperation,
        summary="One migration, step by step.",
        path_fields=_OPERATION,
        addressed=ErrorCode.UNKNOWN_MIGRATION,
    ),
    Route(
        "DELETE",
        "/migrations/{id}",
        OPERATE,
        "abortMigration",
        AbortMigration,
        path_fields=_OPERATION,
        addressed=ErrorCode.UNKNOWN_MIGRATION,
        follow="/migrations/{operation}",
        succeeds=OperationState.ROLLED_BACK,
    ),
    Route(
        "POST",
        "/migrations/{id}/finish",
        OPERATE,
        "finishMigration",
        FinishMigration,
        path_fields=_OPERATION,
        addressed=ErrorCode.UNKNOWN_MIGRATION,
        follow="/migrations/{operation}",
    ),
    Route(
        "GET",
        "/operations/{id}",
        VIEW,
        "showOperation",
        ShowOperation,
        path_fields=_OPERATION,
        addressed=ErrorCode.UNKNOWN_MIGRATION,
    ),
)

STANDBYS = (
    Route("GET", "/standbys", VIEW, "listStandbys", ListStandbys),
    Route(
        "POST",
        "/jobs/{name}/failover",
        OPERATE,
        "failOverJob",
        FailOverJob,
        path_fields=_JOB,
        query=fields_of(FailOverJob, "FailoverQuery", dry_run=_DRY_RUN),
        addressed=ErrorCode.UNKNOWN_JOB,
        follow="/operations/{operation}",
        dry_run=ForecastFailover,
    ),
)

FAULTS = (
    Route("GET", "/faults", VIEW, "describeFaults", DescribeFaults, problems=ANY_ERRORS | {409}),
    Route("GET", "/faults/rules", VIEW, "listRules", ListRules),
    Route(
        "POST",
        "/faults/rules",
        ADMIN,
        "loadRules",
        LoadRules,
        body=Body(RulesToLoad, example={"rules": LoadRules.example["rules"], "lease_s": 30}),
    ),
    Route(
        "POST",
        "/faults/rules/unload",
        ADMIN,
        "unloadRules",
        UnloadRules,
        body=Body(fields_of(UnloadRules, "UnloadRequest", "names"), optional=True),
    ),
    Route(
        "POST",
        "/faults/rules/explain",
        VIEW,
        "explainRule",
        ExplainRule,
        body=Body(Rule, field="rule", example=ExplainRule.example["rule"]),
    ),
    Route(
        "GET",
        "/faults/metrics",
        VIEW,
        "listMetrics",
        ListMetrics,
        query=fields_of(ListMetrics, "MetricsQuery", "after", "name", "entity", "site", "limit"),
        problems=ANY_ERRORS | {409},
    ),
)

MEASUREMENTS = (
    Route("GET", "/series", VIEW, "queryMetrics", QueryMetrics, query=SeriesQuery),
    Route("GET", "/series/definitions", VIEW, "describeMetrics", DescribeMetrics),
    Route("GET", "/values", VIEW, "queryValues", QueryValues, query=ValuesQuery, problems=ANY_ERRORS | {409}),
    Route(
        "GET",
        "/placement",
        VIEW,
        "proposePlacement",
        ProposePlacement,
        query=PlacementQuery,
        problems=ANY_ERRORS | {409},
    ),
    Route(
        "GET",
        "/metrics",
        VIEW,
        "scrapeMetrics",
        summary="The newest values of all metrics, for Prometheus.",
        media_type=EXPOSITION,
    ),
    Route(
        "GET",
        "/traces",
        VIEW,
        "listTraces",
        ListTraces,
        query=fields_of(ListTraces, "TracesQuery", "events", "limit"),
    ),
    Route(
        "GET",
        "/traces/{id}",
        VIEW,
        "showTrace",
        ShowTrace,
        path_fields={"id": "about"},
        addressed=ErrorCode.UNKNOWN_TRACE,
    ),
)

MESH = (
    Route("GET", "/sites", VIEW, "listSites", ListSites),
    Route("GET", "/coordinators", VIEW, "showCoordinators", ShowCoordinators),
    Route(
        "GET",
        "/events",
        VIEW,
        "followEvents",
        summary="What the mesh says of itself, as server-sent events; `id` is the serial number.",
        query=EventsQuery,
        streams=True,
    ),
    Route(
        "GET",
        "/live",
        VIEW,
        "followMesh",
        summary="The state of the mesh, then what changes, as server-sent events: for the live page.",
        answer=LiveChange,
        streams=True,
    ),
    Route(
        "GET",
        "/openapi.json",
        PUBLIC,
        "describe",
        summary="This document.",
        problems=frozenset(),
    ),
    Route(
        "GET",
        "/health",
        PUBLIC,
        "checkHealth",
        summary="Whether the service is connected to the mesh.",
        answer=Health,
        problems=frozenset({503}),
    ),
)

PAGE = (
    Route("GET", "/", PUBLIC, "showPage", problems=frozenset({404})),
    Route("GET", "/page/{file}", PUBLIC, "showPageFile", problems=frozenset({404})),
)
"""The live page: files for browsers, which hold no data, and no part of the described interface."""

ROUTES: tuple[Route, ...] = (
    *JOBS,
    *MIGRATIONS,
    *STANDBYS,
    *PIPELINES,
    *QUERIES,
    *PLANS,
    *BROADCASTS,
    *AUTOPILOT,
    *FAULTS,
    *MEASUREMENTS,
    *MESH,
)
