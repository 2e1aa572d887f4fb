"""A token's role decides which routes it opens, and its name stands in all that it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from api_trial import TOKEN, Trial, running_api

from running.waiting import WITHIN_S
from towpath.api import failed_logins
from towpath.api.failed_logins import FailedLogins
from towpath.api.problems import Refusal
from towpath.contracts.commands import DeployJob, ListJobs, OperationAnswer, OperationKind, OperationState
from towpath.contracts.events import SecurityRefused
from towpath.contracts.job import EXAMPLE_SPEC
from towpath.contracts.message import Event, now
from towpath.contracts.rest import Route
from towpath.contracts.rest_routes import PAGE, ROUTES
from towpath.contracts.role import Role
from towpath.mesh.tokens import add_token, revoke_token
from towpath.tasks import end

PATH = {"name": "late", "id": "op1", "file": "app.js"}
NAMES = {Role.VIEW: "viewer", Role.OPERATE: "operator", Role.ADMIN: "admin"}
PUBLIC = {"describe", "checkHealth", "showPage", "showPageFile"}
VIEWING = {"explainRule", "checkQueries", "explainQueries"}
"""Routes that ask a question which needs a body."""


@dataclass
class People:
    trial: Trial
    home: Path
    tokens: dict[Role, str]

    async def send(self, role: Role, route: Route) -> tuple[int, dict[str, object]]:
        path = route.path.format(**PATH)
        shown = {"Authorization": f"Bearer {self.tokens[role]}"}
        async with self.trial.client.request(route.method, path, headers=shown) as response:
            problem = response.content_type == "application/problem+json"
            return response.status, await response.json(content_type=None) if problem else {}


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    tokens = {role: add_token(tmp_path / "tokens.json", NAMES[role], role, None)[0] for role in Role}
    async with running_api(tmp_path) as trial:
        trial.coordinator.answers[DeployJob] = lambda _: OperationAnswer(
            operation="op1", job="hourly-jfk", kind=OperationKind.DEPLOY, state=OperationState.RUNNING
        )
        yield People(trial, tmp_path, tokens)


@pytest.mark.parametrize("route", [*ROUTES, *PAGE], ids=lambda route: route.name)
def test_route_when_it_is_in_the_table_then_has_the_role_for_what_it_does(route: Route) -> None:
    if route.name in PUBLIC:
        assert route.role is None
    elif route.method == "GET" or route.name in VIEWING:
        assert route.role is Role.VIEW
    else:
        assert route.role in (Role.OPERATE, Role.ADMIN)
    assert (403 in route.errors) == (route.role in (Role.OPERATE, Role.ADMIN))


async def test_route_when_the_token_s_role_is_lower_then_is_refused_and_names_the_role(
    people: People,
) -> None:
    for route in ROUTES:
        for role in Role:
            if route.role is None or role.includes(route.role):
                continue
            status, problem = await people.send(role, route)
            assert (status, problem["code"], problem["field"]) == (403, "forbidden", "role"), route.name
            assert (problem["value"], problem["allowed"]) == (role.value, route.role.and_above)
    assert people.trial.coordinator.asked == []


async def test_route_when_the_role_suffices_then_is_not_refused_for_it(people: People) -> None:
    for route in ROUTES:
        if route.role is not None and not route.streams:
            status, _ = await people.send(route.role, route)
            assert status not in (401, 403), route.name


async def test_change_when_asked_for_then_says_by_which_token(people: People) -> None:
    for shown, name in ((people.tokens[Role.OPERATE], "operator"), (TOKEN, "owner")):
        headers = {"Authorization": f"Bearer {shown}"}
        await people.trial.send("POST", "/jobs", headers=headers, json=EXAMPLE_SPEC)
        assert people.trial.coordinator.newest().asked_by == name
    await people.trial.send("GET", "/jobs")
    assert people.trial.coordinator.newest() == ListJobs(id=people.trial.coordinator.newest().id)


@pytest.mark.parametrize("path", ["/jobs/late/migrations", "/jobs"])
async def test_change_when_its_body_says_who_asks_then_is_refused(people: People, path: str) -> None:
    body = {"to": "cloud", "asked_by": "eve"} if path != "/jobs" else {**EXAMPLE_SPEC, "asked_by": "eve"}
    response, problem = await people.trial.send("POST", path, json=body)
    assert (response.status, problem["field"]) == (422, "asked_by")


async def test_event_stream_when_its_token_is_revoked_then_ends(people: People) -> None:
    shown = {"Authorization": f"Bearer {people.tokens[Role.VIEW]}"}
    async with people.trial.client.get("/live", headers=shown) as stream:
        await stream.content.readline()
        revoke_token(people.home / "tokens.json", "viewer")
        async with asyncio.timeout(WITHIN_S):
            await stream.content.read()
    async with people.trial.client.get("/jobs", headers=shown) as response:
        assert response.status == 401


async def test_token_when_expired_then_is_refused_and_says_so(people: People) -> None:
    text, _ = add_token(people.home / "tokens.json", "ada", Role.ADMIN, now())
    response, problem = await people.trial.send("GET", "/jobs", headers={"Authorization": f"Bearer {text}"})
    assert (response.status, problem["detail"]) == (401, "the token ada has expired")
    [told] = people.trial.coordinator.published
    assert isinstance(told, SecurityRefused)
    assert (told.by, told.kind, told.who) == ("api", "login", "127.0.0.1")
    assert text not in told.to_bytes().decode()


class Failing:
    """Failed logins at a clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: list[Event] = []
        self.logins = FailedLogins(asyncio.Event(), self.tell, lambda: self.now)

    async def tell(self, event: SecurityRefused) -> None:
        self.told.append(event)


def test_failures_when_they_come_from_one_address_then_cost_twice_as_much_each_up_to_a_bound() -> None:
    failing = Failing()
    assert [failing.logins.delay_s("a") for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert failing.logins.delay_s("b") == 0.1


def test_failures_when_a_minute_has_passed_or_a_token_was_valid_then_are_forgotten() -> None:
    failing = Failing()
    failing.logins.delay_s("a"), failing.logins.delay_s("a")
    failing.now += failed_logins.FORGOTTEN_S + 1
    assert failing.logins.delay_s("a") == 0.1
    failing.logins.forget("a")
    assert failing.logins.delay_s("a") == 0.1


async def test_failures_when_too_many_wait_then_more_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failed_logins, "MOST_WAITING", 2)
    for delay in ("FIRST_DELAY_S", "LONGEST_DELAY_S"):
        monkeypatch.setattr(failed_logins, delay, 2 * WITHIN_S)
    failing = Failing()
    waiting = [asyncio.create_task(failing.logins.wait(address)) for address in "ab"]
    await asyncio.sleep(0)

    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(Refusal) as caught:
            await failing.logins.wait("c")

    assert caught.value.status == 429
    await end(waiting)
    assert len(failing.told) == 3, "one event for each address"
