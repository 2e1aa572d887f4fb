"""HTTP calls of an experiment that go to Towpath's REST interface, as steps and probes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.rest_routes import ROUTES
from towpath.lab.scenarios.chaostoolkit.exporting import API, Document

_OURS = re.compile(rf"\$\{{{API}\}}|https?://(localhost|127\.0\.0\.1)(:\d+)?(?=/|$)")

SCALED = {"trigger_s", "max_events_per_batch"}

HANDLED = (
    "POST /jobs",
    "PATCH /jobs/NAME with trigger_s or max_events_per_batch",
    "DELETE /jobs/NAME",
    "POST /jobs/NAME/migrations",
    "PUT /pipelines/NAME",
)


def probe_of_request(provider: Mapping[str, Any], tolerance: Any, place: str) -> Document:
    """The probe that a GET is. Raises `TowpathError` when it does not go to Towpath."""
    path = check_request(provider, place)
    statuses = tolerance if isinstance(tolerance, list) else [tolerance]
    if not statuses or not all(isinstance(s, int) and not isinstance(s, bool) for s in statuses):
        raise _refused("not a status", f"{place}.tolerance", tolerance, "a number such as 200, or several")
    return {"probe": "rest", "path": path, **({"status": tolerance} if tolerance != 200 else {})}


def check_request(provider: Mapping[str, Any], place: str) -> str:
    """What a GET asks Towpath for. Raises `TowpathError` for any other request."""
    path = _path(provider, place)
    if str(provider.get("method") or "GET").upper() != "GET":
        raise _refused("a probe changes nothing", f"{place}.provider.method", provider.get("method"), "GET")
    return path


def step_of_request(provider: Mapping[str, Any], place: str) -> Document:
    """The action that a request is. Raises `TowpathError` for one that no step can be."""
    path = urlsplit(_path(provider, place))
    method = str(provider.get("method") or "GET").upper()
    body = provider.get("arguments") or {}
    query = {name: values[-1] for name, values in parse_qs(path.query).items()}
    for verb, pattern, step in _STEPS:
        match = re.fullmatch(pattern, path.path)
        if verb == method and match and (verb != "PATCH" or (body and set(body) <= SCALED)):
            return step(match, dict(body), query)
    raise _refused("no step can be this", f"{place}.provider", f"{method} {path.path}", [*HANDLED])


def _remove(match: re.Match[str], body: Document, query: Mapping[str, str]) -> Document:
    drain = query.get("drain", "false").lower() in ("true", "1")
    return {"remove": {"job": match[1], **({"drain": True} if drain else {})}}


_NAME = r"([^/]+)"
_STEPS: tuple[tuple[str, str, Callable[[re.Match[str], Document, Mapping[str, str]], Document]], ...] = (
    ("POST", "/jobs", lambda match, body, query: {"deploy": body}),
    ("PATCH", f"/jobs/{_NAME}", lambda match, body, query: {"scale": {"job": match[1], **body}}),
    ("DELETE", f"/jobs/{_NAME}", _remove),
    (
        "POST",
        f"/jobs/{_NAME}/migrations",
        lambda match, body, query: {"migrate": {"job": match[1], **body}},
    ),
    ("PUT", f"/pipelines/{_NAME}", lambda match, body, query: {"apply": {"name": match[1], **body}}),
)


def _path(provider: Mapping[str, Any], place: str) -> str:
    """Path and query of a request to Towpath."""
    url = str(provider.get("url") or "")
    begin = _OURS.match(url)
    path = url[begin.end() :] if begin else ""
    if begin is None or not _known(urlsplit(path).path):
        raise _refused(
            "not Towpath's",
            f"{place}.provider.url",
            url,
            f"${{{API}}} or this machine, and a path of its API",
        )
    return path


def _known(path: str) -> bool:
    return any(re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route.path), path) for route in ROUTES)


def _refused(message: str, field: str, value: Any, allowed: str | list[str]) -> TowpathError:
    return TowpathError(ErrorCode.NOT_ALLOWED, message, field=field, value=value, allowed=allowed)
