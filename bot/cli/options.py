"""Options shared by several commands."""

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="YAML file of settings; RACKMEDIC_* variables override it.")
]
InventoryOption = Annotated[
    Path | None,
    typer.Option(
        "--inventory", "-i", metavar="FILE", help="Inventory: a YAML file, slurm:, kubernetes: or ansible:FILE; default: the setting."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; everything else goes to stderr.")]
SandboxOption = Annotated[
    Path | None, typer.Option("--sandbox", metavar="FILE", help="Use the simulated cluster of this case file instead of real hosts.")
]
HostsOption = Annotated[str, typer.Option("--hosts", metavar="HOSTS", help="Hosts to look at: gpu-[001-004], group names, commas.")]
AttachOption = Annotated[list[Path] | None, typer.Option("--attach", metavar="FILE", help="A log file to read too; may be repeated.")]
