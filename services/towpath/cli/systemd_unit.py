"""Run the mesh of this machine as a unit of systemd: it starts with the machine, and again when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from towpath.atomic_write import write_atomically
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.mesh.lifecycle import STOP_DEADLINE_S
from towpath.mesh.names import SUPERVISOR
from towpath.processes.claim import ALREADY_CLAIMED

SYSTEM_UNITS = Path("/etc/systemd/system")
"""Where root's units are. Everyone else has units of their own, which run as long as `loginctl` lets them."""

ANSWER_S = 60.0


def install(home: Home, name: str) -> Path:
    """Write the unit of this home's mesh. Have systemd start it, now and with the machine. Return its path.

    A repetition changes nothing. Raises `TowpathError` where systemd does not run or refuses.
    """
    path = unit_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, unit(home, name).encode(), mode=0o644)
    systemctl("daemon-reload")
    systemctl("enable", "--now", path.name)
    return path


def uninstall(name: str) -> bool:
    """Have systemd stop and forget the unit. Return False if there is none."""
    path = unit_path(name)
    if not path.exists():
        return False
    systemctl("disable", "--now", path.name)
    path.unlink()
    systemctl("daemon-reload")
    return True


def unit_path(name: str) -> Path:
    """Return the unit's file: the system's for root, and the user's own for others."""
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"
    return (SYSTEM_UNITS if os.geteuid() == 0 else own) / f"towpath-{name}.service"


def unit(home: Home, name: str) -> str:
    """Return the unit. Its process is the supervisor, which ends all others in order."""
    root, log = home.root.absolute(), home.log(SUPERVISOR).absolute()
    return f"""\
[Unit]
Description=Towpath: {name}
Wants=network-online.target
After=network-online.target

[Service]
ExecStart="{sys.executable}" -m towpath.supervisor --home "{root}"
Environment="PATH={os.environ.get("PATH", os.defpath)}"
Restart=always
RestartSec=2
RestartPreventExitStatus={ALREADY_CLAIMED}
KillMode=mixed
TimeoutStopSec={STOP_DEADLINE_S + 5:g}
StandardOutput=append:{log}
StandardError=inherit
NoNewPrivileges=true
ProtectSystem=full

[Install]
WantedBy={"multi-user.target" if os.geteuid() == 0 else "default.target"}
"""


def systemctl(*arguments: str) -> None:
    """Command systemd. Raises `TowpathError` (failed) if it does not run here, or refuses."""
    scope = [] if os.geteuid() == 0 else ["--user"]
    try:
        done = subprocess.run(
            ["systemctl", *scope, *arguments], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        why = str(error)
    else:
        if done.returncode == 0:
            return
        why = done.stderr.strip()
    raise TowpathError(
        ErrorCode.FAILED,
        f"systemctl {' '.join(arguments)}: {why}",
        field="--install-service",
        allowed="a machine that systemd has started; without it, start `towpath up` at boot another way",
    )
