"""`python -m deploy.lab`: a real rack on this machine, from a terminal."""

import asyncio
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bot.settings import copy_environment
from deploy.lab.clear import take_down
from deploy.lab.container import become, members
from deploy.lab.demo import on_the_rack
from deploy.lab.image import cache_folder, folder, image
from deploy.lab.keeper import keep, keeper_of, numbers, rack_of, racks
from deploy.lab.layout import NODES, Rack, named, node_of
from deploy.lab.needs import incapable, require
from deploy.lab.programs import LabRefusal
from deploy.lab.started import end_keeper, start

app = typer.Typer(
    help="A real rack on this machine: Slurm, sshd and systemd in containers.", no_args_is_help=True, pretty_exceptions_enable=False
)
Name = Annotated[str, typer.Argument(help="What the rack is called; several may stand side by side.")]


def _fail(why: LabRefusal) -> NoReturn:
    typer.echo(f"lab: {why}", err=True)
    raise typer.Exit(1)


@app.command()
def up(name: Name = "lab") -> None:
    """Build the image where it is missing, start the nodes, install the node kit. Stays until `down`."""
    try:
        rack = start(named(name), built(), detached=True).rack
    except LabRefusal as error:
        _fail(error)
    typer.echo(f"the rack {rack.name!r} is up; its inventory: {rack.inventory}")


@app.command()
def demo(port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0, name: str = "lab") -> None:
    """The rack, a local Slack page and the real bot, until Ctrl-C; then all of it goes."""
    try:
        with start(named(name), built()) as started:
            raise typer.Exit(asyncio.run(on_the_rack(started.rack, copy_environment(), port)))
    except LabRefusal as error:
        _fail(error)


@app.command()
def down(name: Name = "lab", every: Annotated[bool, typer.Option("--all", help="All racks of this machine.")] = False) -> None:
    """Take the rack down, and those whose keeper was killed. Nothing stays behind."""
    try:
        for rack in racks():
            if every or rack.name == name or not keeper_of(rack):
                end_keeper(rack)
                with numbers():
                    take_down(rack)
                typer.echo(f"the rack {rack.name!r} is down")
    except LabRefusal as error:
        _fail(error)


@app.command(name="in", context_settings={"ignore_unknown_options": True})
def in_(node: str, argv: list[str], name: Annotated[str, typer.Option(help="Of which rack.")] = "lab") -> None:
    """Run a command as root inside a node: `in gpu-001 sinfo -N`. Options of the command after `--`."""
    try:
        become(_standing(name), node_of(node), argv)
    except LabRefusal as error:
        _fail(error)


@app.command()
def status() -> None:
    """The racks of this machine and their nodes."""
    for rack in racks():
        typer.echo(
            f"{rack.name}: {f'kept by process {kept}' if (kept := keeper_of(rack)) else 'its keeper is gone: lab down'}; {rack.inventory}"
        )
        for node in NODES:
            typer.echo(f"  {node.name:8} {rack.address(node):12} {f'{n} processes' if (n := len(members(rack.unit(node)))) else 'off'}")


@app.command(name="image")
def image_() -> None:
    """Build the image where it is missing, and say where it lies."""
    try:
        typer.echo(built())
    except LabRefusal as error:
        _fail(error)


@app.command()
def probe() -> None:
    """Say in one line why no rack can stand on this machine and exit with 1; nothing and 0 where one can."""
    try:
        why = incapable() or incapable(built())
    except LabRefusal as error:
        why = str(error)
    if why:
        typer.echo(why)
        raise typer.Exit(1)


@app.command(name="keep", hidden=True)
def keep_(name: str, image_folder: Path, until_eof: bool = False) -> None:
    raise typer.Exit(asyncio.run(keep(name, image_folder, until_eof=until_eof)))


def built() -> Path:
    """Return the image, building it if needed and saying so on stderr. Raises LabRefusal."""
    require()
    environ = copy_environment()
    cache = cache_folder(environ)
    if not folder(cache).is_dir():
        typer.echo(f"building the image of the nodes in {cache}: once, two to five minutes …", err=True)
    return image(cache, environ)


def _standing(name: str) -> Rack:
    if (rack := rack_of(name)) is None:
        raise LabRefusal(f"there is no rack {name!r}: `python -m deploy.lab up {name}`")
    return rack


if __name__ == "__main__":
    app()
