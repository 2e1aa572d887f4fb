"""Lists the laboratory's commands in `towpath`. The command line finds `add_to` by its entry point.

This module imports no command: it is loaded for each call of `towpath`.
"""

from __future__ import annotations

from towpath.cli.listing import DATA, MESH, CommandList

FAULTS = "Faults on purpose"


def add_to(commands: CommandList) -> None:
    """List each command in the panel of `--help` that it belongs to."""
    commands.add_as(
        MESH,
        "compose",
        "towpath.lab.cli.compose:compose_command",
        "Write a compose file that runs a mesh as containers, and the secrets of each container.",
    )
    commands.add(
        MESH,
        "towpath.lab.cli.links",
        links="List the emulated links between sites and hub: how good each is, and what passed.",
        link="Make a site's link to the hub worse, or better. What is given replaces all that held before.",
    )

    commands.add(
        DATA,
        "towpath.lab.cli.replaying",
        replay="Play recorded departures to a site's broker over MQTT, and wait until all are stored.",
    )
    commands.add(
        DATA,
        "towpath.lab.cli.demo",
        demo=(
            "Run a pipeline over four sites on real departures, move one of its jobs, and check every result."
        ),
    )
    commands.add(
        DATA,
        "towpath.lab.cli.demo_fog",
        demo_fog=(
            "Compare jobs where the data is with all jobs at the cloud, then change a pipeline under load."
        ),
    )
    commands.add(
        DATA,
        "towpath.lab.cli.demo_edge",
        demo_edge=(
            "Let a train find a flat wheel on board without a link, and deliver at stations; check every "
            "event."
        ),
    )
    commands.add(
        DATA,
        "towpath.lab.cli.demo_queries",
        demo_queries=(
            "Ask eight queries over three airports, move the job that answers, and check every answer."
        ),
    )
    commands.add(
        DATA,
        "towpath.lab.cli.demo_autopilot",
        demo_autopilot=(
            "Let jobs leave ahead of a rush hour, a tunnel, an empty battery and a failing site; check every "
            "result."
        ),
    )
    commands.add(
        DATA,
        "towpath.lab.cli.demo_failover",
        demo_failover=(
            "Kill all of a site under load, let its jobs go on at their standby, and check every result."
        ),
    )
    commands.add(
        DATA,
        "towpath.lab.cli.demo_containers",
        demo_containers=(
            "Run a mesh as containers, move its main job between them by `handover`, and check every "
            "result. Then a job leaves a container that is killed right afterwards: nothing may be missing."
        ),
    )
    commands.add(
        DATA,
        "towpath.lab.cli.demo_faults",
        demo_faults="Slow the workers of a Spark cluster down one by one, then the two sites of a handover.",
    )
    commands.add(
        DATA,
        "towpath.lab.cli.drill",
        drill=(
            "Let every step of every operation on a job meet every fault, and check each time that all "
            "is well."
        ),
    )

    commands.add_as(
        FAULTS,
        "scenario",
        "towpath.lab.cli.scenarios:app",
        "Load, faults and commands in time; judged against steady state.",
    )
    commands.add_as(
        FAULTS,
        "fog",
        "towpath.lab.cli.fog:app",
        "A topology of nodes, each a container with its share of this machine, memory, and link.",
    )
    commands.add(
        FAULTS,
        "towpath.lab.cli.campaigns",
        campaign=(
            "Run scenarios again and again, each time varied by another seed, on one mesh that is "
            "brought up once."
        ),
    )
    commands.add_as(
        FAULTS,
        "faults",
        "towpath.lab.cli.faults:app",
        "Break a running mesh on purpose, and measure what happens.",
    )
