"""Render the files of a Mosquitto that the agent runs. Pure: state in, texts out.

Mosquitto acknowledges a device when it has a message in memory. It writes its sessions to the disk every
few seconds and when it ends. A Mosquitto that is killed may lose what it took meanwhile and had not yet
passed on to the bridge. The site's own server as broker loses nothing.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from pathlib import Path

from towpath.contracts.credential import Credential
from towpath.contracts.gateway import CONTROL_PREFIX
from towpath.mesh.credentials import pbkdf2
from towpath.mesh.device_users import DeviceUser, user_of
from towpath.mesh.tls_files import TlsFiles
from towpath.mqtt.broker_address import WINDOW

SAVE_EVERY_S = 5
"""Between two writes of all sessions. They are normally small, because stored messages are forgotten."""

_CONTROL = f"{CONTROL_PREFIX}/#"


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


def passwords(users: Sequence[Credential], site: str, devices: Sequence[DeviceUser]) -> str:
    """Return the password file: hashes, in the form of mosquitto_passwd. Equal for equal users."""
    hashes = {user.user: pbkdf2(user.password) for user in users}
    hashes |= {user_of(site, device.name): device.pbkdf2 for device in devices}
    return "".join(f"{user}:{digest}\n" for user, digest in hashes.items())


def access_list(
    bridge: str, client: str, gateway: str | None = None, *, site: str, devices: Sequence[DeviceUser]
) -> str:
    """Return the access rules: devices write under `site/` and read results, the bridge the reverse.

    Gateways may do what devices may, and have the control topics, which `#` does not match.
    """
    rules = [
        f"user {bridge}",
        "topic read site/#",
        "topic write #",
        f"user {client}",
        "topic write site/#",
        "topic read #",
    ]
    if gateway is not None:
        rules += [f"user {gateway}", "topic write site/#", "topic read #", f"topic readwrite {_CONTROL}"]
    for device in devices:
        rules.append(f"user {user_of(site, device.name)}")
        rules += [f"topic write {prefix}/#" for prefix in device.publish]
        rules += [f"topic read {each}" for each in device.subscribe or ["#"]]
    return "\n".join(rules) + "\n"
