"""Setup commands: demo, init, settings, doctor, manifest, node-kit."""

from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_runtime import call_or_exit, exit_with_error, print_text, run_async_command
from bot.cli.command_runtime import load_settings_or_exit as settings_of
from bot.cli.options import ConfigOption, JsonOption

PANEL = "Begin here"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def demo(
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0,
    http: Annotated[bool, typer.Option(help="Slack tells the bot over HTTP (docs/slack-http.md) in place of Socket Mode.")] = False,
) -> None:
    """A simulated GPU cluster, a local Slack page and the real bot, until Ctrl-C."""
    from bot.settings import copy_environment

    try:
        from deploy.sandbox.demo import demo as play
    except ModuleNotFoundError as why:
        exit_with_error(f"the sandbox is not installed here ({why.name}); run `make demo` in a checkout")
    run_async_command(lambda: play(copy_environment(), port, http=http))


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
    json: JsonOption = False,
) -> None:
    """Ask what the site is made of, write inventory and settings, try them, and say what is left to do. Exit 1 when something must be mended."""
    if questions:
        from bot.cli.setup.questions import render_answers_template

        print_text(render_answers_template(str(folder)), end="")
        return
    from bot.cli.setup.init_command import run_init
    from bot.cli.setup.terminal_prompt import prompt_for_answer

    run_async_command(lambda: run_init(folder.absolute(), answers, prompt_for_answer, again=again, attempt=attempt, as_json=json))


@commands.command(rich_help_panel=PANEL)
def settings(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Every setting: its default, what is set, and what it is for. Exit 2 where what is set cannot be used."""
    from bot.cli.catalogue_tables import build_setting_rows, print_catalogue
    from bot.settings import BadSettings, load_settings

    try:
        print_catalogue("Settings", build_setting_rows(load_settings(config)), json)
    except BadSettings:
        print_catalogue("Settings", build_setting_rows(), json)
        settings_of(config)


@commands.command(rich_help_panel=PANEL)
def doctor(
    config: ConfigOption = None,
    hosts: Annotated[str, typer.Option("--hosts", metavar="HOSTS", help="Hosts to try; default: all.")] = "",
    json: JsonOption = False,
) -> None:
    """Try every part RackMedic needs and say how to mend what fails. Exit 1 when something must be mended.

    Slack, Redis, evidence, the model, the hosts with their keys, and the files you wrote: also routes of alerts that lead to no channel of yours."""
    settings = settings_of(config)
    from bot.cli.doctor.command import run_doctor

    run_async_command(lambda: run_doctor(settings, hosts, as_json=json))


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
    from bot.slack.manifest import render_yaml

    print_text(render_yaml(http), end="")


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
    from bot.cli.node_kit import write_kit

    for path in call_or_exit(lambda: write_kit(out, sign)):
        print_text(path)
