"""`towpath scenario …`: runs scenarios, and shows those of the library."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.endings import OneLineGroup
from towpath.cli.output import print_json, print_table, say, working
from towpath.cli.settings import AsJson
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.scenarios.report import RunReport

app = typer.Typer(cls=OneLineGroup, help="Load, faults and commands in time; judged against steady state.")

Given = Annotated[str, typer.Argument(metavar="SCENARIO", help="A file, or a name that `list` shows.")]
AllowProcess = Annotated[
    bool, typer.Option("--allow-process", help="Let the scenario run programs on this machine.")
]


@app.command("run")
def run(
    scenario: Given,
    seed: Annotated[int, typer.Option(min=0, help="Chooses what the scenario varies; 0: as written.")] = 0,
    home: Annotated[
        Path | None, typer.Option(help="Run on the mesh that runs here, instead of on one of its own.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where journal, report and picture go.", show_default="scenario-NAME")
    ] = None,
    allow_process: AllowProcess = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario: before, during, after, the checker's verdict. Exit code 1 if it is not as expected.

    Everything it changes is put back, also after Ctrl-C; jobs and pipelines that were there before are never
    deleted, and what could not be put back is refused. What it loads ends by itself when it is killed.

    Example: `towpath scenario run engine-killed-mid-batch --seed 7`
    """
    # Here, because pandas would make every other command a second slower.
    from towpath.lab.scenarios.playing import Play
    from towpath.lab.scenarios.reading import read_document

    play = Play(read_document(scenario), scenario, seed, allow_process)
    directory = output or Path(f"scenario-{play.scenario.name}")
    running = None if home is None else Home(home.expanduser().absolute())
    report = asyncio.run(_run(play, directory, running))
    if as_json:
        print_json(report)
    else:
        say(run_line(report))
        say(f"see {directory / 'report.md'}")
        if running is not None:
            say(f"what it led to: towpath --home {running.root} trace {report.run}")
    if not report.passed:
        raise typer.Exit(1)


async def _run(play: Any, directory: Path, running: Home | None) -> RunReport:
    from towpath.lab.scenarios.playing import play as play_scenario

    with working(f"{play.scenario.name}, seed {play.seed}"):
        return await play_scenario(play, directory, running)


def run_line(report: RunReport) -> str:
    """A run on one line."""
    from towpath.lab.harness.report import in_words

    recovered = "–" if report.recovered_s is None else f"{report.recovered_s:.1f} s"
    end = "as expected" if report.passed else "; ".join(report.problems)
    return (
        f"{report.scenario} seed {report.seed}: {report.seconds:.0f} s, steady again after {recovered}, "
        f"the checker found {in_words(report.findings)}: {end}"
    )


@app.command("list")
def list_scenarios(as_json: AsJson = False) -> None:
    """List the ready scenarios.

    Example: `towpath scenario list --json`
    """
    from towpath.lab.scenarios.reading import LIBRARY, read

    found = [read(name) for name in LIBRARY.names()]
    if as_json:
        print_json([{"name": s.name, "description": s.description} for s in found])
        return
    print_table(("name", "what happens"), ((s.name, s.description) for s in found), nothing="No scenarios.")


@app.command("show")
def show(scenario: Given, as_json: AsJson = False) -> None:
    """Print a scenario, checked: a good beginning for one's own.

    Example: `towpath scenario show agent-paused > mine.yaml`
    """
    from towpath.lab.scenarios.reading import LIBRARY, read

    found = read(scenario)
    if as_json:
        print_json(found)
    else:
        print(LIBRARY.text_of(scenario), end="")


@app.command("report")
def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What `run --output` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Write report and picture again from a journal, even if its run was killed.

    With `--json` prints the report as `run --json` did; null if the run did not come to its end.

    Example: `towpath scenario report scenarios/agent-paused`
    """
    from towpath.lab.scenarios.report_page import recorded_report, write_report

    written = write_report(directory)
    if as_json:
        print_json(recorded_report(directory))
    else:
        print(written.read_text(encoding="utf-8"), end="")
