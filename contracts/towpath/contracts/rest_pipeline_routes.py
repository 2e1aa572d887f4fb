"""Routes of pipelines, as in `towpath.contracts.rest_routes`."""

from __future__ import annotations

from towpath.contracts.errors import ErrorCode
from towpath.contracts.pipeline import EXAMPLE_PIPELINE, PipelineSpec
from towpath.contracts.pipeline_commands import (
    ApplyPipeline,
    DeletePipeline,
    ListPipelines,
    PlanPipeline,
    RetryPipeline,
    RollbackPipeline,
    ShowPipeline,
    ShowPipelineHistory,
)
from towpath.contracts.rest import (
    JSON,
    YAML,
    Body,
    Route,
    fields_of,
)
from towpath.contracts.role import OPERATE, VIEW

_PIPELINE = {"name": "pipeline"}


_DOCUMENT = Body(
    PipelineSpec, field="spec", media_types=(JSON, YAML), other_formats=True, example=EXAMPLE_PIPELINE
)


PIPELINES = (
    Route(
        "PUT",
        "/pipelines/{name}",
        OPERATE,
        "applyPipeline",
        ApplyPipeline,
        path_fields=_PIPELINE,
        query=fields_of(ApplyPipeline, "ApplyQuery", "now", "drop_state", "at_once"),
        body=_DOCUMENT,
        follow="/pipelines/{pipeline}",
        created="/pipelines/{pipeline}",
    ),
    Route("GET", "/pipelines", VIEW, "listPipelines", ListPipelines),
    Route(
        "GET",
        "/pipelines/{name}",
        VIEW,
        "showPipeline",
        ShowPipeline,
        path_fields=_PIPELINE,
        addressed=ErrorCode.UNKNOWN_PIPELINE,
    ),
    Route(
        "DELETE",
        "/pipelines/{name}",
        OPERATE,
        "deletePipeline",
        DeletePipeline,
        path_fields=_PIPELINE,
        query=fields_of(DeletePipeline, "DeleteQuery", "now", "purge", "at_once"),
        addressed=ErrorCode.UNKNOWN_PIPELINE,
        follow="/pipelines/{pipeline}",
    ),
    Route(
        "POST",
        "/pipelines/{name}/plan",
        OPERATE,
        "planPipeline",
        PlanPipeline,
        path_fields=_PIPELINE,
        query=fields_of(PlanPipeline, "PlanQuery", "drop_state", "at_once"),
        body=_DOCUMENT,
    ),
    Route(
        "GET",
        "/pipelines/{name}/versions",
        VIEW,
        "showPipelineHistory",
        ShowPipelineHistory,
        path_fields=_PIPELINE,
        query=fields_of(ShowPipelineHistory, "VersionsQuery", "version", "before"),
        addressed=ErrorCode.UNKNOWN_PIPELINE,
    ),
    Route(
        "POST",
        "/pipelines/{name}/rollback",
        OPERATE,
        "rollbackPipeline",
        RollbackPipeline,
        path_fields=_PIPELINE,
        body=Body(
            fields_of(RollbackPipeline, "RollbackRequest", "version", "now", "drop_state", "at_once"),
            optional=True,
        ),
        addressed=ErrorCode.UNKNOWN_PIPELINE,
        follow="/pipelines/{pipeline}",
    ),
    Route(
        "POST",
        "/pipelines/{name}/retry",
        OPERATE,
        "retryPipeline",
        RetryPipeline,
        path_fields=_PIPELINE,
        body=Body(fields_of(RetryPipeline, "RetryRequest", "at_once"), optional=True),
        addressed=ErrorCode.UNKNOWN_PIPELINE,
        follow="/pipelines/{pipeline}",
    ),
)
