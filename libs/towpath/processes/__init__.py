"""Run processes and containers that outlive their starter: pid files, adoption, restarts, stops."""

from towpath.processes.child import launch, rotate_log, starting_command
from towpath.processes.record import PidRecord, find, listed
from towpath.processes.runtime import status, stop
from towpath.processes.spec import ChildSpec, Container, version_of
from towpath.processes.supervisor import Backoff, Supervisor

__all__ = [
    "Backoff",
    "ChildSpec",
    "Container",
    "PidRecord",
    "Supervisor",
    "find",
    "launch",
    "listed",
    "rotate_log",
    "starting_command",
    "status",
    "stop",
    "version_of",
]
