"""Users of single devices, or of groups of devices, at a site's broker. Only hashes of passwords are kept.

`towpath device` writes a site's file, and its agent reads it, see `towpath.agent.device_users`. So a command
needs no agent, and a login needs neither: the broker has the hashes in its own configuration.

- A command that is killed has changed nothing, or everything: the file is replaced whole. The password of an
  `add` that was killed before it printed is lost. Revoke the name, and add it again.
- An `add` that is repeated is refused (name in use), and a `revoke` that is repeated too (no such device).
- While no agent runs, nothing takes effect: the broker goes on with what it has read last. The agent's first
  look brings it up to date.

nats-server takes bcrypt, and Mosquitto PBKDF2. Both are kept, because a site may change its broker. They are
the quickest that the brokers take: a password has 192 random bits, which no one can guess at any speed, and
nats-server checks those of all connected devices when it reads its configuration again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints, ValidationError

from towpath.atomic_write import content_state, write_atomically, write_private_file
from towpath.contracts.credential import Credential
from towpath.contracts.data_plane import DEVICE_PREFIX, DEVICE_SUBJECTS, UNPUBLISHED_SUBJECTS
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import MAX_TOPIC, ROOT, JobName, Model, now
from towpath.mesh.credentials import pbkdf2

log = logging.getLogger(__name__)

BCRYPT_ROUNDS = 4
"""The fewest that there are: 1.4 ms for each connected device when the server reads its users."""

EVERYWHERE = DEVICE_PREFIX.rstrip("/")

PublishPrefix = Annotated[
    str, StringConstraints(pattern=rf"^{EVERYWHERE}(/[A-Za-z0-9_-]+)*$", max_length=MAX_TOPIC)
]
"""A topic. It stands for itself and for all topics below it."""

_NOT_READABLE = {each.partition(".")[0] for each in (DEVICE_SUBJECTS, f"{ROOT}.", *UNPUBLISHED_SUBJECTS)}
"""First levels of topics that no device may read."""

TopicFilter = Annotated[
    str,
    StringConstraints(pattern=r"^(#|(\+|[A-Za-z0-9_-]+)(/(\+|[A-Za-z0-9_-]+))*(/#)?)$", max_length=MAX_TOPIC),
]


class DeviceUser(Model):
    """A user as it is kept."""

    name: JobName
    publish: list[PublishPrefix] = Field(default=[EVERYWHERE], min_length=1)
    subscribe: list[TopicFilter] | None = None
    """None: what the shared user may."""
    created: datetime
    bcrypt: str
    pbkdf2: str


class DeviceFile(Model):
    """The content of `Home.devices`."""

    devices: list[DeviceUser] = []


def user_of(site: str, name: str) -> str:
    """Return the user name with which a device logs in."""
    return f"{site}.device.{name}"


def saved_devices(path: Path) -> list[DeviceUser]:
    """Return all devices in a file; none if there is no file. Raises `TowpathError` if it is unreadable."""
    try:
        return DeviceFile.from_json(path.read_bytes()).devices
    except FileNotFoundError:
        return []
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error


def known_devices(path: Path) -> list[DeviceUser]:
    """Return the same for a server that starts: an unreadable file is logged, and lets no device in."""
    try:
        return saved_devices(path)
    except TowpathError as error:
        log.error("no device has a user of its own, because %s is unreadable: %s", path, error)
        return []


def add_device(
    path: Path, site: str, name: str, publish: Sequence[str] = (), subscribe: Sequence[str] = ()
) -> tuple[Credential, DeviceUser]:
    """Keep a new device. Return its login, whose password is kept nowhere, and the rest.

    Raises `TowpathError`.

    The caller must hold the lock of the mesh's directory, here and in `revoke_device`.
    """
    devices = saved_devices(path)
    if name in [device.name for device in devices]:
        raise TowpathError(
            ErrorCode.NAME_IN_USE,
            "there is a device of this name",
            field="name",
            value=name,
            allowed="another name, or revoke that one first",
        )
    prefixes = [_prefix(each) for each in publish] or [EVERYWHERE]
    for each in subscribe:
        _check_readable(each)
    login = Credential.random(user_of(site, name))
    try:
        device = DeviceUser(
            name=name,
            publish=prefixes,
            subscribe=list(subscribe) or None,
            created=now(),
            bcrypt=_bcrypt(login.password),
            pbkdf2=pbkdf2(login.password),
        )
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error
    write_private_file(path, DeviceFile(devices=[*devices, device]).model_dump_json(indent=2))
    return login, device


def revoke_device(path: Path, name: str) -> None:
    """Forget a device: it cannot log in any more, and its connections end. Raises `TowpathError`."""
    devices = saved_devices(path)
    left = [device for device in devices if device.name != name]
    if len(left) == len(devices):
        raise TowpathError.unknown("device", name, [device.name for device in devices], field="name")
    write_private_file(path, DeviceFile(devices=left).model_dump_json(indent=2))


def _prefix(topic: str) -> str:
    """Return a topic without the `/#` that people may add. Raises `TowpathError` outside `site/`."""
    prefix = topic.removesuffix("#").rstrip("/")
    if prefix != EVERYWHERE and not prefix.startswith(DEVICE_PREFIX):
        raise TowpathError(
            ErrorCode.INVALID, "not a device topic", field="publish", value=topic, allowed=f"{DEVICE_PREFIX}…"
        )
    return prefix


def _check_readable(topic_filter: str) -> None:
    if topic_filter.split("/")[0] in _NOT_READABLE:
        raise TowpathError(
            ErrorCode.INVALID,
            "no device may read these topics",
            field="subscribe",
            value=topic_filter,
            allowed="topics of jobs and broadcasts, such as stats/#",
        )


def _bcrypt(password: str) -> str:
    import bcrypt  # Here: only one command needs it.

    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(BCRYPT_ROUNDS)).decode()


def note_taken_in(path: Path, state: tuple[int, ...] | None) -> None:
    """Note that the site's broker has the users of the file in this state, see `content_state`."""
    write_atomically(_taken_in(path), str(state), mode=0o600, durable=False)


def is_taken_in(path: Path) -> bool:
    """Return True if the site's broker has the users that the file has now."""
    try:
        return _taken_in(path).read_text() == str(content_state(path))
    except OSError:
        return False


def _taken_in(path: Path) -> Path:
    return path.with_suffix(".taken-in")
