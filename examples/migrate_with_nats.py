"""Move a job and watch it go, with nothing but a NATS client. First: eval "$(towpath access --env)"."""

import asyncio
import json
import os
import sys

import nats


async def main(job: str, site: str) -> None:
    user, password = os.environ["TOWPATH_USER"], os.environ["TOWPATH_PASSWORD"]
    inbox = f"_INBOX.{user}".encode()
    hub = os.environ["TOWPATH_URL"].split(",")
    mesh = await nats.connect(hub, user=user, password=password, inbox_prefix=inbox)
    events = await mesh.subscribe("towpath.v1.event.operation.>")
    command = json.dumps({"job": job, "to": site}).encode()
    await mesh.publish("towpath.v1.command.coordinator.migrate", command)
    async for event in events.messages:
        print(event.subject, event.data.decode())
        if event.subject.endswith(".ended"):
            return await mesh.close()


asyncio.run(main(*sys.argv[1:3]))
