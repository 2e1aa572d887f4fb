"""Runs processes that outlive whoever started them: pid files, adoption, restarts, orderly stops."""

from towpath.processes.child import ChildSpec, PidRecord, find, launch, listed, rotate_log, stop
from towpath.processes.supervisor import Backoff, Supervisor

__all__ = [
    "Backoff",
    "ChildSpec",
    "PidRecord",
    "Supervisor",
    "find",
    "launch",
    "listed",
    "rotate_log",
    "stop",
]
