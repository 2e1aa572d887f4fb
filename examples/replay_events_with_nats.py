"""Read every event the mesh has kept, then follow. First: eval "$(towpath access --env)"."""

import asyncio
import os

import nats


async def main() -> None:
    user, password = os.environ["TOWPATH_USER"], os.environ["TOWPATH_PASSWORD"]
    inbox = f"_INBOX.{user}".encode()
    hub = os.environ["TOWPATH_URL"].split(",")
    mesh = await nats.connect(hub, user=user, password=password, inbox_prefix=inbox)
    events = await mesh.jetstream().subscribe("towpath.v1.event.>", stream="EVENTS", ordered_consumer=True)
    async for event in events.messages:
        print(event.subject, event.data.decode(), flush=True)


asyncio.run(main())
