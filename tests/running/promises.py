"""The promises of the README and the pages in docs/, and the mark of the tests that check them.

`make test` runs the fast tests and these. Each shows its promise on real processes, as cheaply as possible.
Tests that look closer, or at rarer cases, stand beside it without the mark, for `make test-all`.
"""

from __future__ import annotations

import pytest

PROMISES = {
    "exactly once": "nothing lost, nothing twice, nothing wrong",
    "quick start": "two sites with broker, engine and agent, a hub, a coordinator",
    "no orphans": "no process stays behind; `up` goes on where it stood",
    "bad input": "Bad input ends with exit code 2 and one line that names the field, the value and",
    "nats": "Any NATS client does the same",
    "late subscriber": "Events are kept in a stream, so a late subscriber sees them too",
    "rest": "The same commands are a REST interface on this machine, with a bearer token",
    "mqtt": "A subscriber with QoS 1 and a persistent session gets every result, also those",
    "mosquitto": "bridges a site to a Mosquitto that is there already, or runs one",
    "serial numbers": "An event has a serial number from the moment its site stores it",
    "renumbered": "a stream that began again, or lost its end, stops the jobs that have read what is gone",
    "sent twice": "an event that its device sends again counts once",
    "repeats": "the output stream drops what it has already",
    "fencing": "a former owner that comes back is refused by the server, not by good manners",
    "failover": "a job with a standby goes on there when its site is lost",
    "coordinator": "kill it at any line and the next one finishes or undoes",
    "spare coordinator": "So of two coordinators one acts, whatever each of them believes",
    "operators": "Malformed events are never dropped silently",
    "models": "Results depend on the events alone, and not on how micro-batches cut them",
    "queries": "Answers depend on the events alone",
    "stored values": "When its owner does not answer, the copy does, and the answer says so",
    "autopilot": "has left before the link is gone, and nothing is lost or comes twice",
    "webhooks": "A restart of Towpath loses none",
    "pipelines": "Apply it. Later, apply a changed file, and Towpath does what the difference needs",
    "draining": "it first finishes what its inputs hold",
    "applies": "An apply survives the death of any process and of the coordinator",
    "plans": "agents and gateways may be killed at any moment of a roll-out",
    "user code": "is stored under its hash and follows its job",
    "strategies": "Four ways to move a job",
    "abort": "rolls it back while that is possible",
    "faults": "without restarting a query, and end with their lease, whatever dies",
    "traces": "One migration is one trace over all services, down to the micro-batches",
    "metrics": "Over HTTP they are at `/series`, and for Prometheus at `/metrics`",
    "scenarios": "Some scenarios plant a bug on purpose, which the checker must find",
    "full disk": "site refuses events of devices: it acknowledges none, so devices keep them",
    "page": "`towpath up` prints the address of a live page",
    "encrypted": "without a certificate of the mesh's authority, no server links to the hub",
    "restricted": "Each user is restricted to its own subjects, and what is not listed is refused",
}
"""Name → how a page says it."""


def promise(name: str) -> pytest.MarkDecorator:
    """Mark a test, or a module with `pytestmark`, as one that checks the promise of this name."""
    assert name in PROMISES, f"no promise is named {name!r}; there are: {', '.join(PROMISES)}"
    return pytest.mark.promise(name)
