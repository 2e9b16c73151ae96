"""`python -m deploy.lab`: a real rack on this machine, from a terminal."""

import asyncio
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bot.settings import copy_environment
from deploy.lab.container import exec_in_node, find_node_pids
from deploy.lab.demo import run_demo
from deploy.lab.image import build_image, get_cache_folder, get_image_folder
from deploy.lab.keeper import find_rack, get_keeper_pid, list_racks, lock_racks, run_keeper
from deploy.lab.launcher import end_keeper, start_rack
from deploy.lab.layout import NODES, Rack, check_rack_name, find_node
from deploy.lab.programs import LabRefusal
from deploy.lab.requirements import find_obstacle, require_rack_support
from deploy.lab.teardown import take_down_rack

app = typer.Typer(
    help="A real rack on this machine: Slurm, sshd and systemd in containers.", no_args_is_help=True, pretty_exceptions_enable=False
)
Name = Annotated[str, typer.Argument(help="What the rack is called; several may stand side by side.")]


def _fail(refusal: LabRefusal) -> NoReturn:
    typer.echo(f"lab: {refusal}", err=True)
    raise typer.Exit(1)


@app.command()
def up(name: Name = "lab") -> None:
    """Build the image where it is missing, start the nodes, install the node kit. Stays until `down`."""
    try:
        rack = start_rack(check_rack_name(name), get_built_image(), detached=True).rack
    except LabRefusal as error:
        _fail(error)
    typer.echo(f"the rack {rack.name!r} is up; its inventory: {rack.inventory}")


@app.command()
def demo(port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0, name: str = "lab") -> None:
    """The rack, a local Slack page and the real bot, until Ctrl-C; then all of it goes."""
    try:
        with start_rack(check_rack_name(name), get_built_image()) as started:
            raise typer.Exit(asyncio.run(run_demo(started.rack, copy_environment(), port)))
    except LabRefusal as error:
        _fail(error)


@app.command()
def down(name: Name = "lab", every: Annotated[bool, typer.Option("--all", help="All racks of this machine.")] = False) -> None:
    """Take the rack down, and those whose keeper was killed. Nothing stays behind."""
    try:
        for rack in list_racks():
            if every or rack.name == name or not get_keeper_pid(rack):
                end_keeper(rack)
                with lock_racks():
                    take_down_rack(rack)
                typer.echo(f"the rack {rack.name!r} is down")
    except LabRefusal as error:
        _fail(error)


@app.command(name="in", context_settings={"ignore_unknown_options": True})
def in_(node: str, argv: list[str], name: Annotated[str, typer.Option(help="Of which rack.")] = "lab") -> None:
    """Run a command as root inside a node: `in gpu-001 sinfo -N`. Options of the command after `--`."""
    try:
        exec_in_node(_find_running_rack(name), find_node(node), argv)
    except LabRefusal as error:
        _fail(error)


@app.command()
def status() -> None:
    """The racks of this machine and their nodes."""
    for rack in list_racks():
        keeper = get_keeper_pid(rack)
        keeper_status = f"kept by process {keeper}" if keeper else "its keeper is gone: lab down"
        typer.echo(f"{rack.name}: {keeper_status}; {rack.inventory}")
        for node in NODES:
            processes = len(find_node_pids(rack.unit(node)))
            node_status = f"{processes} processes" if processes else "off"
            typer.echo(f"  {node.name:8} {rack.address(node):12} {node_status}")


@app.command(name="image")
def image_() -> None:
    """Build the image where it is missing, and say where it lies."""
    try:
        typer.echo(get_built_image())
    except LabRefusal as error:
        _fail(error)


@app.command()
def probe() -> None:
    """Say in one line why no rack can stand on this machine and exit with 1; nothing and 0 where one can."""
    try:
        obstacle = find_obstacle() or find_obstacle(get_built_image())
    except LabRefusal as error:
        obstacle = str(error)
    if obstacle:
        typer.echo(obstacle)
        raise typer.Exit(1)


@app.command(name="keep", hidden=True)
def keep_(name: str, image_folder: Path, until_eof: bool = False) -> None:
    raise typer.Exit(asyncio.run(run_keeper(name, image_folder, until_eof=until_eof)))


def get_built_image() -> Path:
    """Return the image, building it if needed and saying so on stderr. Raises LabRefusal."""
    require_rack_support()
    environ = copy_environment()
    cache = get_cache_folder(environ)
    if not get_image_folder(cache).is_dir():
        typer.echo(f"building the image of the nodes in {cache}: once, two to five minutes …", err=True)
    return build_image(cache, environ)


def _find_running_rack(name: str) -> Rack:
    if (rack := find_rack(name)) is None:
        raise LabRefusal(f"there is no rack {name!r}: `python -m deploy.lab up {name}`")
    return rack


if __name__ == "__main__":
    app()
