"""Webhooks: which results an address gets, and how long each is tried."""

from __future__ import annotations

import pytest

from towpath.api.webhooks import ATTEMPTS, Webhook, idempotency_key, pause_s, webhooks_of
from towpath.contracts.message import now
from towpath.contracts.pipeline import ApplyState, ApplyView, PipelineView
from towpath.queries.compilation import Asked, compiled

TEXT = 's = STREAM FROM topic(topic="site/a", sites="*")\nq = COMPUTE SUM(x, 10 s) EVERY 5 s\n'
URL = "https://example.org/hook"


def view(version: int, webhook: str | None) -> PipelineView:
    asked = Asked("sums", "cloud", TEXT, {}, ["jfk", "cloud"], webhook=webhook)
    apply = ApplyView(
        apply="a1",
        pipeline="sums",
        version=version,
        state=ApplyState.COMPLETED,
        begun_at=now(),
        changes=[],
    )
    return PipelineView(pipeline="sums", version=version, spec=compiled(asked).pipeline, apply=apply)


@pytest.mark.parametrize("version", [1, 2], ids=["new queries", "running queries"])
def test_webhook_when_named_then_gets_answers_of_the_asking_site_from_then_on(version: int) -> None:
    running = view(version, URL)

    since = None if version == 1 else running.apply.begun_at
    assert webhooks_of(running) == {Webhook("sums", "cloud", URL): since}
    assert webhooks_of(view(version, None)) == {}


def test_webhook_when_it_is_all_that_changes_then_the_jobs_stay_as_they_are() -> None:
    before, after = view(1, None).spec, view(1, URL).spec

    assert before != after
    assert [job.job_spec() for job in before.jobs] == [job.job_spec() for job in after.jobs]


def test_result_when_not_taken_then_is_tried_for_minutes_with_one_key() -> None:
    pauses = [pause_s(attempts) for attempts in range(1, ATTEMPTS)]

    assert (pauses[:3], pauses[-1]) == ([1.0, 2.0, 4.0], 60.0)
    assert 300 < sum(pauses) < 420
    assert idempotency_key("a/1") == idempotency_key("a/1") != idempotency_key("a/2")
