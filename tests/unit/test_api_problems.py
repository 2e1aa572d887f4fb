"""Errors as problem details: what a client reads."""

from __future__ import annotations

import json

from towpath.api.problems import problem
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError


def body_of(error: TowpathError) -> dict[str, object]:
    text = problem(error, None).text
    assert text is not None
    return json.loads(text)


def test_problem_when_a_name_is_nearly_right_then_the_detail_suggests_the_closest() -> None:
    error = TowpathError(
        ErrorCode.UNKNOWN_JOB, "no such job", field="job", value="hourly-jfc", allowed=["clean", "hourly-jfk"]
    )

    assert body_of(error)["detail"] == "no such job; did you mean 'hourly-jfk'?"


def test_problem_when_several_things_are_wrong_then_each_error_has_its_suggestion() -> None:
    inner = ErrorDetail(code=ErrorCode.UNKNOWN_SITE, message="no such site", value="jfx", allowed=["jfk"])
    error = TowpathError(ErrorCode.INVALID, "two errors", errors=[inner])

    errors = body_of(error)["errors"]

    assert isinstance(errors, list)
    assert [error["message"] for error in errors] == ["no such site; did you mean 'jfk'?"]


def test_problem_when_no_name_is_near_then_the_detail_is_the_message_alone() -> None:
    error = TowpathError(ErrorCode.UNKNOWN_JOB, "no such job", value="xyz", allowed=["clean"])

    assert body_of(error)["detail"] == "no such job"
