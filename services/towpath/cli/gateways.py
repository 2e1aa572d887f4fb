"""Commands for gateways: run one, simulate many, pack what they run, and command them.

`run` and `simulate` become another program, so that a gateway has none of the command line in its memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.cli.connection import load_mesh
from towpath.cli.endings import FAILED
from towpath.cli.gateway_requests import answer_of, present
from towpath.cli.gateway_spreading import spread
from towpath.cli.output import print_json, print_table
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.gateway import ACCOUNT
from towpath.gateways.client import GatewayClient
from towpath.gateways.packing import pack as packed
from towpath.gateways.refusal import Refusal
from towpath.mesh.site_broker import gateway_broker
from towpath.mqtt.broker_address import MQTT_3_1_1, BrokerAddress

app = typer.Typer(help="Run gateways, simulate many, and command them.")
app.command()(spread)

Config = Annotated[Path, typer.Option(help="YAML file with the gateway's settings.")]
Site = Annotated[str | None, typer.Option(help="Site of this machine's mesh whose gateways are meant.")]
Broker = Annotated[str | None, typer.Option(help="HOST:PORT of another broker with gateways.")]
User = Annotated[str | None, typer.Option(help="User at that broker.")]
PasswordFile = Annotated[Path | None, typer.Option(help="File with the password at that broker.")]
Account = Annotated[str, typer.Option(help="Account of the gateways.")]


@app.command()
def run(config: Config) -> None:
    """Run a gateway on this device until SIGTERM or Ctrl-C.

    Example: `towpath gateway run --config examples/gateways/gateway.yaml`
    """
    _become("towpath.gateway", "--config", str(config))


@app.command()
def create(
    context: typer.Context,
    device: Annotated[str, typer.Argument(help="Name of the gateway, unique in its account.")],
    site: Annotated[str, typer.Option(help="Site of this machine's mesh that the gateway feeds.")],
    into: Annotated[Path | None, typer.Option(help="Its directory.", show_default="./DEVICE")] = None,
) -> None:
    """Write settings and password of a gateway of this mesh into a directory of its own.

    Example: `towpath gateway create pi01 --site jfk`
    """
    directory = (Path(device) if into is None else into).absolute()
    address = asyncio.run(_address(context, site, None, None, None))
    make_private_directory(directory)
    password = directory / "site.password"
    write_private_file(password, f"{address.password}\n")
    broker = {"host": address.host, "port": address.port, "user": address.user}
    settings = {
        "device": device,
        "directory": str(directory / "data"),
        "site": broker | {"password_file": str(password)},
    }
    config = directory / "gateway.yaml"
    write_private_file(config, yaml.safe_dump(settings, sort_keys=False))
    print(f"towpath gateway run --config {config}")


@app.command()
def simulate(
    config: Config,
    count: Annotated[int, typer.Option(min=1, help="Number of gateways.")] = 20,
    per_process: Annotated[int, typer.Option(min=1, help="Gateways that share a process.")] = 25,
    inside: Annotated[
        bool, typer.Option("--inside", help="Run applications in the gateways' processes, not apart.")
    ] = False,
) -> None:
    """Run many gateways, for measurements: `pi-001` and so on, each with its own session and directory.

    Example: `towpath gateway simulate --config pi01/gateway.yaml --count 20`
    """
    options = ["--count", str(count), "--per-process", str(per_process), *(["--inside"] if inside else [])]
    _become("towpath.gateway.simulation", "--config", str(config), *options)


@app.command()
def pack(
    directory: Annotated[Path, typer.Argument(help="Directory with `manifest.json`, and code if any.")],
    into: Annotated[Path, typer.Option(help="Directory for the package.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Check a directory, pack it, and print the body of the request that installs it.

    Example: `towpath gateway pack examples/gateways/average-temperature`
    """
    try:
        manifest, path, digest = packed(directory, into)
    except Refusal as refusal:
        raise _error(refusal) from refusal
    url = path.absolute().as_uri()
    body = {"name": manifest.name, "version": manifest.version, "url": url, "sha256": digest}
    if as_json:
        print_json(body)
    else:
        print(json.dumps(body))


@app.command("list")
def list_gateways(
    context: typer.Context,
    site: Site = None,
    broker: Broker = None,
    user: User = None,
    password_file: PasswordFile = None,
    account: Account = ACCOUNT,
    as_json: AsJson = False,
) -> None:
    """List the gateways that a broker knows, and tell which are online.

    Example: `towpath gateway list --site jfk`
    """

    async def find() -> dict[str, bool]:
        address = await _address(context, site, broker, user, password_file)
        async with GatewayClient(address, account) as client:
            return await present(client)

    found = [{"device": device, "online": online} for device, online in sorted(asyncio.run(find()).items())]
    if as_json:
        print_json(found)
    else:
        rows = [(each["device"], "online" if each["online"] else "offline") for each in found]
        print_table(("device", "state"), rows, nothing="no gateways")


@app.command()
def request(
    context: typer.Context,
    devices: Annotated[str, typer.Argument(help="Names with commas between; `all` for all that are online.")],
    application: Annotated[str, typer.Argument(help="CONF-V1, DEPLOY-V2 or CMD-V1.")],
    verb: Annotated[str, typer.Argument(help="GET, PUT or EXEC.")],
    resource: Annotated[str, typer.Argument(help="For example `packages/install`.")],
    body: Annotated[str | None, typer.Argument(help="JSON, or @FILE with it.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Identifier, the same for a repetition.")] = None,
    within: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for answers.")] = 60.0,
    site: Site = None,
    broker: Broker = None,
    user: User = None,
    password_file: PasswordFile = None,
    account: Account = ACCOUNT,
    as_json: AsJson = False,
) -> None:
    """Send a request to gateways, to all at once, and print their answers.

    Example: `towpath gateway request pi01 DEPLOY-V2 GET applications --site jfk`
    """
    content = _content(body)

    async def send() -> list[dict[str, Any]]:
        address = await _address(context, site, broker, user, password_file)
        async with GatewayClient(address, account) as client:
            found = await present(client) if devices == "all" else dict.fromkeys(devices.split(","), True)
            asked = (
                answer_of(client, device, (application, verb, resource, content), request_id, within)
                for device, online in sorted(found.items())
                if online
            )
            return [*await asyncio.gather(*asked)]

    answers = asyncio.run(send())
    if as_json:
        print_json(answers)
    else:
        rows = [(a["device"], a["code"], f"{a['seconds']:.2f} s", json.dumps(a["body"])) for a in answers]
        print_table(("device", "code", "time", "body"), rows, nothing="no gateways are online")
    if any(answer["code"] != 200 for answer in answers):
        raise typer.Exit(FAILED)


async def _address(
    context: typer.Context, site: str | None, broker: str | None, user: str | None, password_file: Path | None
) -> BrokerAddress:
    if broker is not None:
        host, _, port = broker.rpartition(":")
        if not host or not port.isdecimal():
            raise TowpathError(
                ErrorCode.INVALID, "not an address", field="--broker", value=broker, allowed="HOST:PORT"
            )
        password = None if password_file is None else await asyncio.to_thread(password_file.read_text)
        return BrokerAddress(host, int(port), MQTT_3_1_1, user, password.strip() if password else None)
    if site is None:
        raise TowpathError(
            ErrorCode.INVALID, "no broker is named", field="--site", allowed="--site or --broker"
        )
    return gateway_broker((await load_mesh(home_of(context))).site(site))


def _content(body: str | None) -> Any:
    if body is None:
        return None
    text = Path(body[1:]).read_text(encoding="utf-8") if body.startswith("@") else body
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TowpathError(ErrorCode.INVALID, f"not JSON: {error}", field="body", value=body) from error


def _error(refusal: Refusal) -> TowpathError:
    first = refusal.problems[0]
    return TowpathError(
        ErrorCode.INVALID,
        str(refusal) if len(refusal.problems) > 1 else first.message,
        field=first.field,
        value=first.value,
        allowed=first.allowed,
    )


def _become(module: str, *arguments: str) -> None:
    """Replace this process by another program in the same environment."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
