"""The REST interface on a real mesh: a job's whole life, and events that survive a cut."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import nats.errors
import psutil
import pytest
import pytest_asyncio

from running.api import JOB, WAIT, Api, running_api
from running.coordinator import running_coordinator
from running.mesh import Mesh
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus
from towpath.contracts.commands import OperationKind, OperationState
from towpath.contracts.events import EVENTS_STREAM, JobChanged, OperationEnded, SiteChanged
from towpath.contracts.job import JobState
from towpath.contracts.message import Event
from towpath.contracts.site import SiteState

pytestmark = pytest.mark.asyncio(loop_scope="session")


FORGOTTEN_S = 60.0
"""Time until the hub deletes a reader that the killed service could not delete."""


async def said(api: Api, *events: Event) -> None:
    """Publish events of the mesh."""
    user = api.running.state.login("coordinator")
    async with await Bus.connect(api.running.state.hub_url, user.user, user.password, name="test") as bus:
        stream = bus.connection.jetstream()
        for event in events:
            # It returns when the event is stored: clients that do not follow see only stored events.
            await stream.publish(event.to_subject(), event.to_bytes())


def changed(number: int, note: str = "") -> JobChanged:
    return JobChanged(job="told", site="jfk", epoch=number, state=JobState.RUNNING, error=note or None)


async def last_serial(api: Api) -> int:
    async with api.running.coordinator() as hub:
        return (await hub.jetstream().stream_info(EVENTS_STREAM)).state.last_seq


async def readers(api: Api) -> set[str]:
    async with api.running.coordinator() as hub:
        return {reader.name for reader in await hub.jetstream().consumers_info(EVENTS_STREAM)}


async def first(events: AsyncIterator[tuple[int, str, Any]], what: str) -> tuple[int, Any]:
    """Return the first event whose subject ends with this text."""
    async for serial, subject, body in events:
        if subject.endswith(what):
            return serial, body
    raise AssertionError("the stream ended")


async def followed(api: Api, location: str) -> Any:
    """Follow a location until its operation is over. Return its last state."""

    async def over() -> bool:
        return (await api.send("GET", location))[1]["state"] not in ("running", "rolling_back")

    await eventually(over)
    return (await api.send("GET", location))[1]


@promise("rest")
async def test_job_when_deployed_patched_moved_and_removed_by_rest_then_is_as_asked(api: Api) -> None:
    async with api.client.post("/jobs", json=JOB) as response:
        assert response.status == 202
        deployed = await followed(api, response.headers["Location"])
    assert (deployed["kind"], deployed["state"], api.trial.owners("late")) == ("deploy", "completed", ["jfk"])
    assert (await api.send("POST", "/jobs", json=JOB))[0] == 200, "it runs already"

    status, body = await api.send("PATCH", "/jobs/late", json={"trigger_s": 3.0}, headers=WAIT)
    assert (status, body["kind"]) == (200, "update")
    status, body = await api.send("GET", "/jobs/late")
    spec = body["spec"]
    assert (status, spec["trigger_s"], spec["operator"]["where"]) == (200, 3.0, "delay > 15")

    move = {"to": "lga", "strategy": "restart"}
    status, forecast = await api.send("POST", "/jobs/late/migrations?dry_run=true", json=move)
    assert (status, forecast["strategy"], api.trial.owners("late")) == (200, "restart", ["jfk"])
    async with api.client.post("/jobs/late/migrations", json=move, headers=WAIT) as response:
        assert response.status == 201
        moved = (await api.send("GET", response.headers["Location"]))[1]
    assert (moved["state"], moved["target"], api.trial.owners("late")) == ("completed", "lga", ["lga"])
    assert moved["journal"] != []
    listed = (await api.send("GET", "/migrations"))[1]["operations"]
    assert [migration["operation"] for migration in listed] == [moved["operation"]]
    assert (await api.send("GET", f"/migrations/{deployed['operation']}"))[0] == 404
    api.trial.check_nothing_lost("late")

    assert (await api.send("DELETE", "/jobs/late?purge=true", headers=WAIT))[0] == 200
    assert (await api.send("GET", "/jobs"))[1] == {"jobs": []}
    assert (await api.send("GET", "/jobs/late"))[0] == 404


async def test_request_when_sent_again_with_its_key_then_is_the_same_operation(api: Api) -> None:
    key = {"Idempotency-Key": "deploy-late-1"}
    _, once = await api.send("POST", "/jobs", json=JOB, headers=key)
    await followed(api, f"/operations/{once['operation']}")
    status, again = await api.send("POST", "/jobs", json=JOB, headers=key)
    assert again["operation"] == once["operation"]
    assert status in (201, 202), "the answer of then, or how it ended"


async def test_migration_when_aborted_by_rest_then_the_source_goes_on(api: Api) -> None:
    await api.send("POST", "/jobs", json=JOB, headers=WAIT)
    api.trial.agents.gates["launch-retrieve late"] = asyncio.Event()
    move = {"to": "lga", "strategy": "general"}
    status, moving = await api.send("POST", "/jobs/late/migrations", json=move)
    assert status == 202
    await eventually(lambda: api.trial.agents.was_reached("lga launch-retrieve"))
    status, problem = await api.send("DELETE", "/jobs/late")
    assert (status, problem["code"]) == (409, "busy")
    assert (await api.send("DELETE", f"/migrations/{moving['operation']}"))[0] in (200, 202)
    api.trial.let_go("launch-retrieve", "late")
    ended = await followed(api, f"/migrations/{moving['operation']}")
    assert (ended["state"], api.trial.owners("late")) == ("rolled_back", ["jfk"])
    assert (await api.send("DELETE", f"/migrations/{moving['operation']}"))[0] == 200


@promise("rest")
async def test_events_when_the_client_comes_back_after_a_cut_then_each_comes_once(api: Api) -> None:
    begun = await last_serial(api)
    async with api.events() as events:
        await api.send("POST", "/jobs", json=JOB, headers=WAIT)
        serial, body = await first(events, ".begun")
        assert (body["kind"], body["job"]) == ("deploy", "late")
    await api.end(signal.SIGKILL)
    await said(api, *(changed(number) for number in range(250)))
    await api.start()
    newest = await last_serial(api)
    async with api.events(last=serial) as events:
        got = [(await anext(events)) for _ in range(newest - serial)]
    assert [event[0] for event in got] == list(range(serial + 1, newest + 1))
    assert [body["epoch"] for _, subject, body in got if ".told." in subject] == list(range(250))
    async with api.events(f"?after={begun}&follow=false") as events:
        assert [event[0] async for event in events] == list(range(begun + 1, await last_serial(api) + 1))


async def test_events_when_the_hub_restarts_then_the_stream_goes_on_by_itself(own_api: Api) -> None:
    async with own_api.events("?subject=job.told") as events:
        await said(own_api, changed(1))
        assert (await anext(events))[2]["epoch"] == 1
        await own_api.running.kill("hub")
        await own_api.running.start("hub")
        await said(own_api, changed(2))
        async with asyncio.timeout(WITHIN_S):
            assert (await anext(events))[2]["epoch"] == 2


@pytest_asyncio.fixture(loop_scope="session")
async def own_api(own_servers: Mesh) -> AsyncIterator[Api]:
    """Run a REST service on servers of its own."""
    async with running_coordinator(own_servers) as trial, running_api(trial) as api:
        yield api


@pytest.mark.parametrize(
    ("subject", "ends"),
    [
        ("site", ["site.jfk.changed", "site.lga.changed"]),
        ("site.lga", ["site.lga.changed"]),
        ("*.*.ended", ["operation.op1.ended"]),
        ("operation.op2", []),
    ],
)
async def test_events_when_filtered_then_only_those_come(api: Api, subject: str, ends: list[str]) -> None:
    before = await last_serial(api)
    site = SiteState.UP
    await said(
        api,
        SiteChanged(site="jfk", state=site),
        changed(1),
        SiteChanged(site="lga", state=site),
        OperationEnded(
            operation="op1", kind=OperationKind.DEPLOY, job="late", state=OperationState.COMPLETED
        ),
    )
    async with api.events(f"?after={before}&follow=false&subject={subject}") as events:
        assert [s.removeprefix("towpath.v1.event.") async for _, s, _ in events] == ends


FORGED = b'{},"subject":"towpath.v1.event.job.late.removed","body":{"job":"late"}'


async def test_events_when_a_site_stores_what_is_none_then_it_is_left_out_and_the_next_one_comes(
    api: Api,
) -> None:
    before = await last_serial(api)
    async with api.running.coordinator() as hub:
        for body in (FORGED, b"not json", b"[1]", b'{"at":NaN}', b"[" * 100_000):
            await hub.jetstream().publish(changed(0).to_subject(), body)
    await said(api, changed(1))

    async with api.events(f"?after={before}&follow=false") as events:
        assert [(serial, subject) async for serial, subject, _ in events] == [
            (before + 6, changed(1).to_subject())
        ]


async def test_events_when_the_client_has_a_serial_that_never_was_then_is_told(api: Api) -> None:
    status, problem = await api.send("GET", "/events", headers={"Last-Event-ID": str(2**40)})
    assert (status, problem["field"], problem["code"]) == (422, "Last-Event-ID", "invalid")


async def test_events_when_a_client_takes_nothing_then_the_service_keeps_no_more_for_it(api: Api) -> None:
    assert api.process is not None
    service = psutil.Process(api.process.pid)
    before = await last_serial(api)
    async with api.client.get(f"/events?after={before}") as slow:
        await slow.content.readuntil(b"\n\n")
        at_rest = service.memory_info().rss
        await said(api, *(changed(number, "x" * 100_000) for number in range(400)))

        async def kept() -> bool:
            return await last_serial(api) >= before + 400

        await eventually(kept)
        newest = await last_serial(api)
        async with api.events(f"?after={newest - 1}") as events:
            assert (await anext(events))[0] == newest, "others are served meanwhile"
        assert service.memory_info().rss - at_rest < 15e6, "40 MB were said"
        # Events that wait in sockets and at the hub arrive when the client reads them.
        got = b""
        async with asyncio.timeout(WITHIN_S):
            while b"id: %d\n" % newest not in got:
                got = got[-20:] + await slow.content.readany()


async def test_service_when_told_to_end_then_open_streams_end_with_it(api: Api) -> None:
    async with api.events() as events:
        ending = asyncio.create_task(api.end())
        assert [event async for event in events] == []
        assert await ending == 0


async def test_readers_when_their_clients_are_gone_then_the_hub_forgets_them(api: Api) -> None:
    # A service that was killed leaves readers for a minute.
    earlier = await readers(api)
    async with api.events(), api.events():
        await said(api, changed(1))

        async def two() -> bool:
            return len(await readers(api) - earlier) == 2

        await eventually(two)

    async def none() -> bool:
        return await readers(api) <= earlier

    await eventually(none, within_s=WITHIN_S + FORGOTTEN_S)


async def test_service_when_it_listens_then_only_this_machine_reaches_it(api: Api) -> None:
    assert api.process is not None
    listening = [c.laddr for c in psutil.Process(api.process.pid).net_connections() if c.status == "LISTEN"]
    assert [(a.ip, a.port) for a in listening] == [("127.0.0.1", api.running.state.spec.api_port)]


async def test_service_s_user_when_it_asks_for_more_than_routes_need_then_is_refused(servers: Mesh) -> None:
    refused: asyncio.Queue[Exception] = asyncio.Queue()
    async with servers.client(
        servers.state.hub_url, servers.state.login("api"), error_cb=refused.put
    ) as user:
        for subject in (
            "towpath.v1.command.jfk.start-job",
            "towpath.v1.event.site.jfk.changed",
            "$JS.API.STREAM.DELETE.EVENTS",
            "$JS.jfk.API.STREAM.DELETE.IN",
        ):
            await user.publish(subject, b"{}")
            error = await asyncio.wait_for(refused.get(), WITHIN_S)
            assert isinstance(error, nats.errors.Error)
            assert "permissions violation" in str(error).lower()


@promise("rest")
async def test_client_when_without_token_then_gets_nothing_but_health_and_description(api: Api) -> None:
    async with aiohttp.ClientSession(api.running.state.api_url) as stranger:
        for path, status in (("/jobs", 401), ("/events", 401), ("/health", 200), ("/openapi.json", 200)):
            async with stranger.get(path) as response:
                assert response.status == status


async def test_pipeline_when_put_planned_changed_rolled_back_and_deleted_by_rest_then_is_as_asked(
    api: Api,
) -> None:
    second = {**JOB, "name": "later", "output": {"topic": "departures/later"}}
    jobs: dict[str, Any] = {"jobs": [JOB, second]}
    status, plan = await api.send("POST", "/pipelines/delays/plan", json=jobs)
    assert (status, [c["actions"] for c in plan["changes"]]) == (200, [["add"], ["add"]])
    assert (await api.send("GET", "/pipelines/delays"))[0] == 404, "nothing was done"

    text = f"jobs:\n- {json.dumps(JOB)}\n- {json.dumps(second)}\n"
    yaml = {"Content-Type": "application/yaml"}
    assert (await api.send("PUT", "/pipelines/delays", data=text, headers=yaml | WAIT))[0] == 201
    assert (api.trial.owners("late"), api.trial.owners("later")) == (["jfk"], ["jfk"])

    slower = {"jobs": [JOB, second | {"trigger_s": 5.0}]}
    async with api.client.put("/pipelines/delays", json=slower) as response:
        assert (response.status, response.headers["Location"]) == (202, "/pipelines/delays")

    async def applied() -> bool:
        return (await api.send("GET", "/pipelines/delays"))[1]["apply"]["state"] == "completed"

    await eventually(applied)
    versions = (await api.send("GET", "/pipelines/delays/versions"))[1]["versions"]
    assert [(v["version"], v["spec"]["jobs"][1]["trigger_s"]) for v in versions] == [(2, 5.0), (1, 1.0)]

    status, back = await api.send("POST", "/pipelines/delays/rollback", json={"version": 1}, headers=WAIT)
    assert (status, back["version"]) == (200, 3)
    assert (await api.send("GET", "/jobs/later"))[1]["spec"]["trigger_s"] == 1.0
    wrong = {"jobs": [JOB | {"site": "mars"}, second | {"inputs": [{"site": "jfk", "topic": "nowhere"}]}]}
    status, problem = await api.send("PUT", "/pipelines/delays", json=wrong)
    places = [error["field"] for error in problem["errors"]]
    assert status == 422
    assert {"jobs[0].site"} < set(places), "all errors at once, each with its place"

    assert (await api.send("DELETE", "/pipelines/delays?now=true", headers=WAIT))[0] == 200
    assert (await api.send("GET", "/pipelines"))[1] == {"pipelines": []}
    assert (api.trial.owners("late"), api.trial.owners("later")) == ([], [])
