"""Render the files of a Mosquitto that the agent runs. Pure: state in, texts out.

Mosquitto acknowledges a device when it has a message in memory. It writes its sessions to the disk every
few seconds and when it ends. A Mosquitto that is killed may lose what it took meanwhile and had not yet
passed on to the bridge. The site's own server as broker loses nothing.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pwd
from collections.abc import Sequence
from pathlib import Path

from towpath.contracts.gateway import CONTROL_PREFIX
from towpath.mesh.credentials import Credential
from towpath.mesh.tls_files import TlsFiles
from towpath.mqtt.broker_address import WINDOW

SAVE_EVERY_S = 5
"""Between two writes of all sessions. They are normally small, because stored messages are forgotten."""

_CONTROL = f"{CONTROL_PREFIX}/#"

_ITERATIONS = 101
"""As mosquitto_passwd has it. More would gain nothing, because the passwords are 192 random bits."""


def configuration(directory: Path, *, listen: str, port: int, tls: TlsFiles | None = None) -> str:
    """Return `mosquitto.conf`. Queues have no limit: a device's acknowledged message is never dropped."""
    lines = [
        f"listener {port} {listen}",
        *([f"certfile {tls.certificate_file}", f"keyfile {tls.key_file}"] if tls else []),
        "allow_anonymous false",
        f"password_file {directory / 'passwords'}",
        f"acl_file {directory / 'acl'}",
        "persistence true",
        f"persistence_location {directory}/",
        f"autosave_interval {SAVE_EVERY_S}",
        "max_queued_messages 0",
        f"max_inflight_messages {WINDOW}",
        "set_tcp_nodelay true",
        "connection_messages false",
        "log_dest stderr",
        # Only a Mosquitto started by root heeds this. Otherwise it would become a user who may not read its
        # files.
        f"user {pwd.getpwuid(os.geteuid()).pw_name}",
    ]
    return "\n".join(lines) + "\n"


def passwords(users: Sequence[Credential]) -> str:
    """Return the password file: hashes, in the form of mosquitto_passwd. Equal for equal users."""
    return "".join(f"{user.user}:{_hashed(user)}\n" for user in users)


def access_list(bridge: str, device: str, gateway: str | None = None) -> str:
    """Return the access rules: devices write under `site/` and read results, the bridge the reverse.

    Gateways may do what devices may, and have the control topics, which `#` does not match.
    """
    rules = (
        f"user {bridge}",
        "topic read site/#",
        "topic write #",
        f"user {device}",
        "topic write site/#",
        "topic read #",
    )
    if gateway is not None:
        rules += (f"user {gateway}", "topic write site/#", "topic read #", f"topic readwrite {_CONTROL}")
    return "\n".join(rules) + "\n"


def _hashed(user: Credential) -> str:
    salt = hashlib.blake2b(user.password.encode(), digest_size=12, person=b"mosquitto").digest()
    digest = hashlib.pbkdf2_hmac("sha512", user.password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
