"""The control protocol of gateways: topics, and payloads as bytes. Pure.

A requester commands a gateway by a request on a control topic and gets the answer on a topic of its own
(Mohamed, Newcastle 2020, section 3.6). Topics and resources follow Eclipse Kura's MQTT namespace:

    request       $EDC/<account>/<device>/<application id>/<verb>/<resource...>
    answer        $EDC/<account>/<requester>/<application id>/REPLY/<request id>
    notification  $EDC/<account>/<requester>/<application id>/NOTIFY/<device>/<resource...>
    presence      $EDC/<account>/<device>/MQTT/PRESENCE

Payloads are JSON. Kura's payload, which is Protocol Buffers, is not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from towpath.contracts.gateway import (
    APPLICATION_IDS,
    CONFIGURATIONS,
    CONTROL_PREFIX,
    IDENTIFIER_PATTERN,
    NAME_PATTERN,
    PUT,
    VERBS,
    Notification,
    Presence,
    Reply,
    Request,
)
from towpath.gateways.properties_xml import read_properties
from towpath.gateways.refusal import Refusal

REPLY, NOTIFY = "REPLY", "NOTIFY"
_PRESENCE = ("MQTT", "PRESENCE")
_NAME = re.compile(NAME_PATTERN)
_IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
_RESOURCE_LEVEL = re.compile(r"^[A-Za-z0-9._:-]+$")

T = TypeVar("T")


@dataclass(frozen=True)
class Address:
    """Part of a gateway that a request is for, and what is to be done there."""

    account: str
    device: str
    application: str
    """Identifier of the part: one of `APPLICATION_IDS`."""
    verb: str
    resource: str
    """Levels joined by `/`, such as `packages/install`."""

    @property
    def topic(self) -> str:
        """Topic of the request. Raises `Refusal` (400) if a part of the address cannot be in a topic."""
        _check("account", self.account, _NAME)
        _check("device", self.device, _NAME)
        _check_among("application", self.application, APPLICATION_IDS)
        _check_among("verb", self.verb, VERBS)
        for level in self.resource.split("/"):
            _check("resource", level, _RESOURCE_LEVEL)
        levels = (CONTROL_PREFIX, self.account, self.device, self.application, self.verb, self.resource)
        return "/".join(levels)


def parse_address(topic: str) -> Address:
    """Return the address in a request's topic. Raises `Refusal` (400) for any other topic."""
    levels = topic.split("/")
    if len(levels) < 6 or levels[0] != CONTROL_PREFIX:
        raise Refusal.bad(
            "not the topic of a request",
            field="topic",
            value=topic,
            allowed=f"{CONTROL_PREFIX}/<account>/<device>/<application id>/<verb>/<resource>",
        )
    _, account, device, application, verb, *resource = levels
    address = Address(account, device, application, verb, "/".join(resource))
    _ = address.topic  # Checks each part.
    return address


def requests_filter(account: str, device: str) -> list[str]:
    """Return the topic filters of all requests to a gateway, without the presence of its own.

    There are two, for resources of one and of two levels. Filters by verb would cost nats-server a consumer
    each.
    """
    return ["/".join((CONTROL_PREFIX, account, device, "+", "+", *levels)) for levels in (["+"], ["+", "+"])]


def reply_topic(account: str, requester: str, application: str, request: str) -> str:
    """Return the topic of an answer. `+` stands for any application or request."""
    return "/".join((CONTROL_PREFIX, account, requester, application, REPLY, request))


def notify_topic(account: str, requester: str, application: str, device: str, resource: str) -> str:
    """Return the topic of notifications. `+` and `#` may stand for application, device and resource."""
    return "/".join((CONTROL_PREFIX, account, requester, application, NOTIFY, device, resource))


def presence_topic(account: str, device: str) -> str:
    """Return the topic on which the broker keeps a gateway's birth or death. `+` stands for any device."""
    return "/".join((CONTROL_PREFIX, account, device, *_PRESENCE))


def is_reply(topic: str) -> bool:
    """True for the topic of an answer."""
    return _levels_after(topic, 4)[:1] == [REPLY]


def is_notification(topic: str) -> bool:
    """True for the topic of a notification."""
    return _levels_after(topic, 4)[:1] == [NOTIFY]


def is_presence(topic: str) -> bool:
    """True for the topic of a gateway's presence."""
    return tuple(_levels_after(topic, 3)) == _PRESENCE


def _levels_after(topic: str, count: int) -> list[str]:
    levels = topic.split("/")
    return levels[count:] if levels[0] == CONTROL_PREFIX else []


def encode(message: Request | Reply | Notification | Presence) -> bytes:
    """Return a message's payload."""
    return msgspec.json.encode(message)


def decode(payload: bytes, kind: type[T]) -> T:
    """Return a payload as a message of this kind. Raises `Refusal` (400)."""
    try:
        return msgspec.json.decode(payload, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal.bad(f"the payload cannot be read: {error}", field="payload") from error


def decode_request(address: Address, payload: bytes) -> Request:
    """Return the request in a payload. The body of a configuration may be XML. Raises `Refusal` (400)."""
    request = decode(payload, Request)
    _check("request_ID", request.request_id, _IDENTIFIER)
    _check("requester_ID", request.requester_id, _IDENTIFIER)
    if (address.application, address.verb) == (CONFIGURATIONS, PUT) and isinstance(request.body, str):
        body = {"properties": read_properties(request.body)}
        return Request(request.request_id, request.requester_id, body)
    return request


def body_as(body: Any, kind: type[T]) -> T:
    """Return a request's body as a struct of this kind. Raises `Refusal` (400)."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        field = "body" + path.rstrip("`")
        raise Refusal.bad(message, field=field, allowed=_fields(kind)) from error


def _fields(kind: type[Any]) -> str:
    fields = msgspec.structs.fields(kind)
    needed = [field.encode_name for field in fields if field.required]
    others = [field.encode_name for field in fields if not field.required]
    return f"{', '.join(needed)}" + (f"; optional: {', '.join(others)}" if others else "")


def check_name(field: str, value: str) -> None:
    """Raise `Refusal` (400) unless the value is the name of an account, device, package or application."""
    _check(field, value, _NAME)


def _check(field: str, value: str, pattern: re.Pattern[str]) -> None:
    if not pattern.match(value) or value.endswith("\n"):
        raise Refusal.bad("not allowed here", field=field, value=value, allowed=pattern.pattern)


def _check_among(field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise Refusal.bad(f"no such {field}", field=field, value=value, allowed=[*allowed])
