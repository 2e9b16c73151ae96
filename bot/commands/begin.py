"""The commands with which a site begins: demo, init, settings, doctor, manifest, node-kit."""

from pathlib import Path
from typing import Annotated

import typer

from bot.terminal.edge import answer, fail, run, tell
from bot.terminal.edge import settings as settings_of
from bot.terminal.options import Config, Json

PANEL = "Begin here"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def demo(
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0,
    http: Annotated[bool, typer.Option(help="Slack tells the bot over HTTP (docs/slack-http.md) in place of Socket Mode.")] = False,
) -> None:
    """A simulated GPU cluster, a local Slack page and the real bot, until Ctrl-C."""
    from bot.settings import environment

    try:
        from deploy.sandbox.demo import demo as play
    except ModuleNotFoundError as why:
        fail(f"the sandbox is not installed here ({why.name}); run `make demo` in a checkout")
    run(lambda: play(environment(), port, http=http))


@commands.command(
    rich_help_panel=PANEL,
    epilog="Without a person: rackmedic init --questions > answers.yaml, fill it in, rackmedic init --answers answers.yaml",
)
def init(
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Where inventory and settings are written.")] = Path(
        "/etc/rackmedic"
    ),
    answers: Annotated[Path | None, typer.Option("--answers", metavar="FILE", help="Answers as YAML; nobody is asked then.")] = None,
    questions: Annotated[bool, typer.Option("--questions", help="Print every question as a file to fill in, and do nothing.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Begin anew; files that are there are kept as .old.")] = False,
    attempt: Annotated[bool, typer.Option("--try/--no-try", help="Try Slack, Redis and every host with what was written.")] = True,
    json: Json = False,
) -> None:
    """Ask what the site is made of, write inventory and settings, try them, and say what is left to do. Exit 1 when something must be mended."""
    if questions:
        from bot.terminal.setup.questions import template

        tell(template(str(folder)), end="")
        return
    from bot.terminal.setup.asking import ask
    from bot.terminal.setup.begin import begin

    run(lambda: begin(folder.absolute(), answers, ask, again=again, attempt=attempt, as_json=json))


@commands.command(rich_help_panel=PANEL)
def settings(config: Config = None, json: Json = False) -> None:
    """Every setting: its default, what is set, and what it is for. Exit 2 where what is set cannot be used."""
    from bot.settings import BadSettings, load
    from bot.terminal.catalogues import setting_rows, show

    try:
        show("Settings", setting_rows(load(config)), json)
    except BadSettings:
        show("Settings", setting_rows(), json)
        settings_of(config)


@commands.command(rich_help_panel=PANEL)
def doctor(
    config: Config = None,
    hosts: Annotated[str, typer.Option("--hosts", metavar="HOSTS", help="Hosts to try; default: all.")] = "",
    json: Json = False,
) -> None:
    """Try every part RackMedic needs and say how to mend what fails. Exit 1 when something must be mended.

    Slack, Redis, evidence, the model, the hosts with their keys, and the files you wrote: also routes of alerts that lead to no channel of yours."""
    settings = settings_of(config)
    from bot.terminal.doctor import examine

    run(lambda: examine(settings, hosts, as_json=json))


@commands.command(rich_help_panel=PANEL)
def manifest(
    http: Annotated[
        str,
        typer.Option("--http", metavar="URL", help="For HTTP mode: where Slack reaches us, https://…/slack/events. Without: Socket Mode."),
    ] = "",
) -> None:
    """The Slack app manifest that matches this version; paste it at api.slack.com/apps."""
    if http and not http.startswith("https://"):
        raise typer.BadParameter("Slack sends to https:// addresses only, such as https://rackmedic.example.com/slack/events")
    from bot.slack.manifest import as_yaml

    tell(as_yaml(http), end="")


@commands.command(name="node-kit", rich_help_panel=PANEL)
def node_kit(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder to write into.")] = Path("rackmedic-kit"),
    sign: Annotated[
        Path | None, typer.Option("--sign", metavar="KEY", help="The site's SSH key (or its .pub, with an agent) that signs the kit.")
    ] = None,
) -> None:
    """Write the two scripts that may run as root on a node, with sudoers and sshd snippets and an installer.

    Nodes with /etc/rackmedic/allowed_signers install only what that key signed.
    """
    from bot.terminal.node_kit import write_kit

    for path in answer(lambda: write_kit(out, sign)):
        tell(path)
