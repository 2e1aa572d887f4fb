"""The AsyncAPI 3.0 document: one channel per subject, request and reply for commands, sends for events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from towpath.contracts.field_descriptions import field_descriptions
from towpath.contracts.message import ROOT, Command, Message
from towpath.contracts.reply import Reply

JSON = "application/json"


def asyncapi(commands: Sequence[type[Command[Any]]], sent: Sequence[type[Message]]) -> dict[str, Any]:
    """The document. `commands` are received and answered; `sent` is what the mesh says unasked."""
    replies = {_reply_name(command): Reply[command.answer] for command in commands}
    models: dict[str, type[BaseModel]] = {kind.__name__: kind for kind in (*commands, *sent)}
    models.update(replies)
    names, schemas = _schemas(models)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Towpath",
            "version": ROOT.rsplit(".v", 1)[-1] + ".0.0",
            "description": "Commands, replies and events over NATS. The version is part of every subject.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": JSON,
        "channels": {kind.__name__: _channel(kind) for kind in (*commands, *sent)}
        | {"Replies": _reply_channel(replies)},
        "operations": {kind.__name__: _request(kind) for kind in commands}
        | {kind.__name__: _send(kind) for kind in sent},
        "components": {
            "messages": {name: _message(kind, names[name]) for name, kind in models.items()},
            "schemas": schemas,
        },
    }


def _schemas(models: dict[str, type[BaseModel]]) -> tuple[dict[str, str], dict[str, Any]]:
    references, definitions = models_json_schema(
        [(kind, "validation") for kind in models.values()], ref_template="#/components/schemas/{model}"
    )
    names = {name: references[kind, "validation"]["$ref"] for name, kind in models.items()}
    return names, _plain_discriminators(definitions["$defs"])


def _plain_discriminators(node: Any) -> Any:
    """AsyncAPI names the discriminating property by a string, where pydantic writes OpenAPI's object."""
    if isinstance(node, list):
        return [_plain_discriminators(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _plain_discriminators(value) for key, value in node.items()}
    discriminator = plain.get("discriminator")
    if isinstance(discriminator, dict) and "propertyName" in discriminator:
        plain["discriminator"] = discriminator["propertyName"]
    return plain


def _channel(kind: type[Message]) -> dict[str, Any]:
    name = kind.__name__
    channel: dict[str, Any] = {
        "address": kind.subject,
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
    }
    if kind.placeholders():
        descriptions = field_descriptions(kind)
        channel["parameters"] = {
            field: {"description": descriptions.get(field, f"The message's `{field}`.")}
            for field in kind.placeholders()
        }
    return channel


def _reply_channel(replies: dict[str, Any]) -> dict[str, Any]:
    return {
        "address": None,
        "description": "The reply subject that the sender of a command names in its NATS request.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in replies},
    }


def _request(kind: type[Command[Any]]) -> dict[str, Any]:
    return {
        "action": "receive",
        "summary": _summary(kind),
        "channel": {"$ref": f"#/channels/{kind.__name__}"},
        "messages": [{"$ref": f"#/channels/{kind.__name__}/messages/{kind.__name__}"}],
        "reply": {
            "channel": {"$ref": "#/channels/Replies"},
            "messages": [{"$ref": f"#/channels/Replies/messages/{_reply_name(kind)}"}],
        },
    }


def _send(kind: type[Message]) -> dict[str, Any]:
    return {
        "action": "send",
        "summary": _summary(kind),
        "channel": {"$ref": f"#/channels/{kind.__name__}"},
        "messages": [{"$ref": f"#/channels/{kind.__name__}/messages/{kind.__name__}"}],
    }


def _message(kind: type[BaseModel], schema: str) -> dict[str, Any]:
    message: dict[str, Any] = {"contentType": JSON, "payload": {"$ref": schema}, "summary": _summary(kind)}
    if issubclass(kind, Message):
        message["examples"] = [{"name": "golden", "payload": kind.example}]
    return message


def _reply_name(kind: type[Command[Any]]) -> str:
    return f"Reply{kind.answer.__name__}"


def _summary(kind: type[BaseModel]) -> str:
    return (kind.__doc__ or kind.__name__).strip().splitlines()[0]
