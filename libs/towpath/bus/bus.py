"""One NATS connection that speaks contracts: send commands, serve them, publish and follow events."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import ConnectionClosedError, NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError
from pydantic import ValidationError

from towpath.bus.authenticity import ForeignSubject, Refusals, authentic
from towpath.bus.connecting import Login, Password, connect_persistently
from towpath.bus.deadlines import counting, waiting
from towpath.bus.passing import arriving, leaving
from towpath.bus.spans import begins_trace, deciding, is_looking, refused, requesting, serving, trace_headers
from towpath.bus.terms import Terms, later_term, of_term
from towpath.contracts.data_plane import INBOXES
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.events import CommandRefused
from towpath.contracts.message import Command, Message, Model
from towpath.contracts.reply import Reply
from towpath.hooks.points import InjectedFault
from towpath.tasks import end

if TYPE_CHECKING:
    from towpath.telemetry.shipping import SpanShipper

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", bound=Model)
CommandT = TypeVar("CommandT", bound=Command[Any])
MessageT = TypeVar("MessageT", bound=Message)

_Take: TypeAlias = Callable[[Msg], Awaitable[None]]

RETRY_PAUSE_S = 0.3
"""Between attempts of a command that no one received: too long to flood, short beside any deadline."""

FIRST_ATTEMPT_S = 5.0
"""Time after which a command without an answer is sent again: longer than nearly all answers take. Each
further attempt waits twice as long, so that an answer that takes longer still comes."""

REMEMBERED_ANSWERS = 2000
"""Answers kept to recognise repeated commands.

A repetition comes within one deadline, that is within minutes. At the rate at which an agent gets commands
this number covers hours."""


class _Unanswered(TowpathError):
    """Error: no reply came, as opposed to a refusal."""


class Withheld(Exception):
    """Raised by a handler that wants to leave a command without an answer."""


class Bus:
    """A connection to the mesh. It reconnects until closed. Use it as an async context manager.

    Handlers run as tasks of the bus. Leaving the context cancels and awaits them.
    """

    def __init__(self, connection: Client) -> None:
        self.connection = connection
        self.asks_as: str | None = None
        """Who asks for the changes that are requested here, unless the command says so itself."""
        self.term: int | None = None
        """The term in which commands are sent here, if a coordinator sends them."""
        self.on_later_term: Callable[[int], Awaitable[None]] | None = None
        """Called when a receiver knows a later term. Then the command is sent again."""
        self.terms: Terms | None = None
        """Terms of the coordinators that are obeyed here; None: any."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._shipping: set[asyncio.Task[None]] = set()
        self._executing: dict[str, asyncio.Future[Reply[Any]]] = {}
        """Subject and id of a command under way → its answer. It may take hours."""
        self._answers: OrderedDict[str, asyncio.Future[Reply[Any]]] = OrderedDict()
        """The newest answers, by subject and id."""
        self._subscriptions: dict[str, tuple[_Take, Subscription]] = {}
        """Subject → what takes its commands, and the subscription that brings them."""
        self._together: dict[str, _Take] | None = None
        """Subject → what takes its commands, while several are collected for one subscription."""
        self._refusals = Refusals(connection.options.get("name") or "unnamed", self.publish)

    @classmethod
    async def connect(
        cls,
        url: str,
        user: str,
        password: Password,
        *,
        name: str,
        within_s: float | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """Connect. Wait for the server for `within_s` seconds, or without limit if that is None. With `tls`,
        the connection is encrypted from its first byte.

        Raises `TowpathError` (unreachable) when the server does not answer in time.
        """
        try:
            async with asyncio.timeout(within_s):
                return cls(await connect_persistently(Login(url, user, password, tls), name))
        except TimeoutError as error:
            raise TowpathError(
                ErrorCode.UNREACHABLE, "the mesh does not answer", field="url", value=url
            ) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel handlers under way and close the connection."""
        await end(self._tasks)
        await end(self._shipping)
        try:
            await asyncio.wait_for(self.connection.close(), 5)
        except (TimeoutError, nats.errors.Error):
            log.warning("the connection did not close in time")

    def ship(self, shipper: SpanShipper) -> None:
        """Send the process's spans over this connection. Closing it sends the last ones."""
        self._shipping.add(asyncio.create_task(shipper.ship(self.connection), name="ship spans"))

    async def request(
        self,
        command: Command[AnswerT],
        *,
        deadline_s: float,
        attempt_s: float | None = None,
        own_span: bool = True,
    ) -> AnswerT:
        """Send a command and return its answer. Raises `TowpathError`.

        While no one listens (a service restarts, a link is down), the same command is sent again until the
        deadline. It is also sent again when no answer came for a while, because the receiver may have died:
        every `attempt_s`, or more and more seldom. The receiver recognises the repetition by its `id`.
        Without `own_span` the receiver's work becomes part of the present span: for spans that outlive this
        process.
        """
        if command.asked_by is None and self.asks_as and begins_trace(type(command)):
            command = command.model_copy(update={"asked_by": self.asks_as})
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        growing_s = FIRST_ATTEMPT_S
        with requesting(command, own_span=own_span):
            while True:
                try:
                    left = end - loop.time()
                    return await self._attempt(command, min(left, attempt_s or growing_s), left)
                except _Unanswered as error:
                    if loop.time() + RETRY_PAUSE_S >= end:
                        raise TowpathError.of(error.detail) from error
                    if error.detail.code is ErrorCode.DEADLINE:
                        growing_s *= 2
                except TowpathError as error:
                    later = later_term(error)
                    if later is None or self.on_later_term is None or loop.time() + RETRY_PAUSE_S >= end:
                        raise
                    await self.on_later_term(later)
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _attempt(self, command: Command[AnswerT], timeout_s: float, left_s: float) -> AnswerT:
        headers = (trace_headers() or {}) | waiting(left_s) | of_term(self.term)
        subject = command.to_subject()
        end = asyncio.get_running_loop().time() + max(timeout_s, 0.05)
        try:
            async with asyncio.timeout_at(end):
                copies = await leaving(type(command), subject, command.to_bytes())
                if not copies:
                    await _lost()
                for copy in copies[1:]:
                    await self.connection.publish(subject, copy, headers=headers)
            left = max(end - asyncio.get_running_loop().time(), 0.05)
            message = await self.connection.request(subject, copies[0], timeout=left, headers=headers)
            async with asyncio.timeout_at(max(end, asyncio.get_running_loop().time() + 0.05)):
                answers = await arriving(type(command), message.subject, message.data)
                if not answers:
                    await _lost()
        except (NoRespondersError, InjectedFault) as error:
            what = str(error) if isinstance(error, InjectedFault) else "no one answers this command"
            raise _Unanswered(ErrorCode.UNREACHABLE, what, field="subject", value=subject) from error
        except (TimeoutError, NatsTimeoutError, ConnectionClosedError) as error:
            raise _Unanswered(
                ErrorCode.DEADLINE, f"no answer to {command.verb()} in time", field="subject", value=subject
            ) from error
        return parse_reply(command, answers[0])

    async def publish(self, message: Message) -> None:
        """Send a message without waiting for a receiver."""
        headers, subject = trace_headers(), message.to_subject()
        for body in await leaving(type(message), subject, message.to_bytes()):
            await self.connection.publish(subject, body, headers=headers)

    async def serve(
        self,
        kind: type[CommandT],
        handler: Callable[[CommandT], Awaitable[Model]],
        **fixed: str,
    ) -> None:
        """Answer commands of `kind`. `fixed` are subject fields, for example `site="jfk"`.

        Commands run concurrently, each in a task. A handler that changes something for good calls
        `check_in_time` just before. It raises `TowpathError` to refuse, and the sender gets it as a
        structured reply. If the command went to a service, a `CommandRefused` event also tells those who did
        not wait for the reply. A command under a subject that is not its own is dropped, with a
        `SecurityRefused` event.
        """

        async def on_message(message: Msg) -> None:
            self.own(asyncio.create_task(self._answer(kind, handler, message)))

        subject = kind.wildcard(**fixed)
        if self._together is None:
            self._subscriptions[subject] = on_message, await self.connection.subscribe(subject, cb=on_message)
        else:
            self._together[subject] = on_message

    @asynccontextmanager
    async def one_subscription(self, wildcard: str) -> AsyncIterator[None]:
        """Take the commands under a wildcard that are served before or within the block by one subscription,
        from the block's end on.

        A hub compares each subscription of a site with each link to another, so a site should have few.
        A command that matches the wildcard, and is not served here, is left to those who serve it. Raises
        `ValueError` if another command is served within the block.
        """
        self._together = served = {}
        try:
            yield
        finally:
            self._together = None
        if strays := [subject for subject in served if not _is_under(subject, wildcard)]:
            raise ValueError(f"{', '.join(strays)}: not under {wildcard}")

        async def on_message(message: Msg) -> None:
            if (take := served.get(message.subject)) is not None:
                await take(message)

        # Two subscriptions of a connection must not bring the same command: a server that allows one answer
        # counts the second delivery as that answer.
        for subject in [each for each in self._subscriptions if _is_under(each, wildcard)]:
            served[subject], subscription = self._subscriptions.pop(subject)
            await subscription.unsubscribe()
        await self.connection.subscribe(wildcard, cb=on_message)

    async def _answer(
        self, kind: type[CommandT], handler: Callable[[CommandT], Awaitable[Model]], message: Msg
    ) -> None:
        with serving(kind, message.headers), counting(message.headers):
            try:
                if self.terms is not None:
                    await self.terms.check(message.headers)
                bodies = await arriving(kind, message.subject, message.data or b"{}")
            except (TowpathError, InjectedFault) as error:
                detail = error.detail if isinstance(error, TowpathError) else _failure(error)
                await self._reply(kind, message, Reply[Any](ok=False, error=detail))
                return
            for body in bodies:
                await self._reply(kind, message, await self._decide(kind, handler, message.subject, body))

    async def _reply(self, kind: type[CommandT], message: Msg, reply: Reply[Any] | None) -> None:
        """Send an answer, if there is one and the sender waits for it.

        Only inboxes get answers: this service may publish where the sender may not.
        """
        if reply is None or not message.reply.startswith(INBOXES):
            return
        try:
            for body in await leaving(kind, message.reply, reply.model_dump_json().encode()):
                await self.connection.publish(message.reply, body)
        except (nats.errors.Error, OSError) as error:
            log.warning("the answer to %s could not be sent: %s", kind.verb(), error)

    async def _decide(
        self, kind: type[CommandT], handler: Callable[[CommandT], Awaitable[Model]], subject: str, body: bytes
    ) -> Reply[Any] | None:
        identifier, asked_by = "unreadable", None
        try:
            try:
                command = authentic(kind, subject, body)
            except ValidationError as error:
                raise TowpathError.of_validation(error) from error
            identifier, asked_by = command.id, command.asked_by
            with deciding(command):
                return await self._once(command, handler)
        except TowpathError as error:
            detail = error.detail
        except Withheld:
            return None
        except ForeignSubject as error:
            await self._told(error)
            return None
        except Exception as error:
            log.exception("%s failed", kind.verb())
            detail = _failure(error)
        refused(detail)
        if ".command.coordinator." in kind.subject:
            told = CommandRefused(command=identifier, request=kind.verb(), asked_by=asked_by, error=detail)
            await self.publish(told)
        return Reply[Any](ok=False, error=detail)

    async def _once(self, command: CommandT, handler: Callable[[CommandT], Awaitable[Model]]) -> Reply[Any]:
        """Execute a command. For a repetition, join the execution or repeat its answer.

        A failure is forgotten, so that the sender may try again.
        """
        key = f"{command.to_subject()} {command.id}"
        earlier = self._executing.get(key) or self._answers.get(key)
        if earlier is not None:
            return await asyncio.shield(earlier)
        answer: asyncio.Future[Reply[Any]] = asyncio.get_running_loop().create_future()
        self._executing[key] = answer
        try:
            reply = Reply[Any](ok=True, result=await handler(command))
        except BaseException as error:
            # A cancelled execution leaves its repetitions unanswered, too: their sender tries again.
            answer.set_exception(error if isinstance(error, Exception) else Withheld())
            answer.exception()  # Retrieved, so that asyncio does not warn if no one waits for it.
            raise
        finally:
            del self._executing[key]
        answer.set_result(reply)
        if not is_looking(type(command)):
            # Answers to questions are not remembered: they may have megabytes and come every second. A
            # repetition gets a new one.
            self._answers[key] = answer
        while len(self._answers) > REMEMBERED_ANSWERS:
            self._answers.popitem(last=False)
        return reply

    async def subscribe(
        self, kind: type[MessageT], handler: Callable[[MessageT], Awaitable[None]], **fixed: str
    ) -> None:
        """Call `handler` for each message of `kind`, one after another, in order of arrival.

        A message under a subject that is not its own is dropped, with a `SecurityRefused` event.
        """

        async def on_message(message: Msg) -> None:
            for body in await arriving(kind, message.subject, message.data):
                try:
                    parsed = authentic(kind, message.subject, body)
                except ValidationError as error:
                    log.warning("unreadable %s on %s: %s", kind.__name__, message.subject, error)
                except ForeignSubject as error:
                    await self._told(error)
                else:
                    await handler(parsed)

        await self.connection.subscribe(kind.wildcard(**fixed), cb=on_message)

    async def _told(self, refusal: ForeignSubject) -> None:
        kind, came_under = refusal.kind.__name__, refusal.came_under
        await self._refusals.tell(kind, came_under, belongs_to=refusal.belongs_to, why=str(refusal))

    def own(self, task: asyncio.Task[None]) -> None:
        """Cancel and await a task, if it has not ended, when the bus is closed."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_under(subject: str, wildcard: str) -> bool:
    """Return True for a subject that a wildcard for its last token matches."""
    return subject.rpartition(".")[0] == wildcard.removesuffix(".*")


async def _lost() -> NoReturn:
    """Wait without end, because a fault rule lets a message get lost. The caller's deadline ends this."""
    await asyncio.Event().wait()
    raise AssertionError("no one sets the event")


def _failure(error: Exception) -> ErrorDetail:
    return ErrorDetail(code=ErrorCode.FAILED, message=f"{type(error).__name__}: {error}"[:500])


def parse_reply(command: Command[AnswerT], body: bytes) -> AnswerT:
    """Return the answer in a reply's body. Raises the `TowpathError` in it, or one if it is unreadable."""
    try:
        return Reply[command.answer].from_json(body).unwrap()  # type: ignore[name-defined,return-value]
    except ValidationError as error:
        raise TowpathError(
            ErrorCode.FAILED, f"unreadable reply to {command.verb()}: {body[:200]!r}"
        ) from error
