"""Setup commands: demo, init, settings, doctor, manifest, node-kit."""

from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_runtime import (
    ConfigOption,
    JsonOption,
    call_or_exit,
    exit_with_error,
    load_settings_or_exit,
    print_text,
    run_async_command,
)

PANEL = "Begin here"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic demo --port 8080")
def demo(
    port: Annotated[int, typer.Option(help="Port of the page; 0 picks a free one.")] = 0,
    http: Annotated[bool, typer.Option(help="Use Slack over HTTP (docs/slack-http.md) instead of Socket Mode.")] = False,
) -> None:
    """Run the bot against a simulated GPU cluster and a local Slack page until Ctrl-C."""
    from bot.settings import copy_environment

    try:
        from deploy.sandbox.demo import run_demo
    except ModuleNotFoundError as error:
        exit_with_error(f"the sandbox is not installed here ({error.name}); run `make demo` in a checkout")
    run_async_command(lambda: run_demo(copy_environment(), port, http=http))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic init --answers answers.yaml")
def init(
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Folder for inventory and settings.")] = Path("/etc/rackmedic"),
    answers: Annotated[
        Path | None, typer.Option("--answers", metavar="FILE", help="Read the answers from FILE (YAML) and prompt for nothing.")
    ] = None,
    questions: Annotated[bool, typer.Option("--questions", help="Print all questions as a file to fill in, and exit.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Start over; existing files are kept as .old.")] = False,
    attempt: Annotated[bool, typer.Option("--try/--no-try", help="Test Slack, Redis and every host with the new settings.")] = True,
    json: JsonOption = False,
) -> None:
    """Set up a site: write inventory and settings, test them, and list remaining steps.

    Without prompts: --questions prints a file to fill in, and --answers reads it.

    Exit 1 when something must be fixed.
    """
    if questions:
        from bot.cli.setup.questions import render_answers_template

        print_text(render_answers_template(str(folder)), end="")
        return
    from bot.cli.setup.init_command import run_init
    from bot.cli.setup.questions import prompt_for_answer

    run_async_command(lambda: run_init(folder.absolute(), answers, prompt_for_answer, again=again, attempt=attempt, as_json=json))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic settings redis_url")
def settings(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Show this setting in full, with or without RACKMEDIC_.")] = "",
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List all settings with defaults and values, or show one in full.

    Exit 2 when the settings cannot be used.
    """
    from bot.cli.catalogue_tables import build_setting_rows, print_catalogue
    from bot.settings import BadSettings, load_settings

    try:
        loaded_settings = load_settings(config)
    except BadSettings:
        call_or_exit(lambda: print_catalogue("Settings", build_setting_rows(), json, name))
        load_settings_or_exit(config)
    else:
        call_or_exit(lambda: print_catalogue("Settings", build_setting_rows(loaded_settings), json, name))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic doctor --hosts gpu-[001-004]")
def doctor(
    config: ConfigOption = None,
    hosts: Annotated[str, typer.Option("--hosts", metavar="HOSTS", help="Hosts to test; default: all.")] = "",
    json: JsonOption = False,
) -> None:
    """Test every part RackMedic needs and say how to fix what fails.

    Tests Slack, Redis, evidence, the model, the hosts with their keys, and your files, including alert routes without a channel of yours.

    Exit 1 when something must be fixed.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.doctor.command import run_doctor

    run_async_command(lambda: run_doctor(settings, hosts, as_json=json))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic manifest > manifest.yaml")
def manifest(
    http: Annotated[
        str,
        typer.Option(
            "--http", metavar="URL", help="For HTTP mode: address that Slack calls, https://…/slack/events. Default: Socket Mode."
        ),
    ] = "",
) -> None:
    """Print the Slack app manifest of this version, to paste at api.slack.com/apps."""
    if http and not http.startswith("https://"):
        raise typer.BadParameter("Slack sends to https:// addresses only, such as https://rackmedic.example.com/slack/events")
    from bot.slack.manifest import render_yaml

    print_text(render_yaml(http), end="")


@commands.command(name="node-kit", rich_help_panel=PANEL, epilog="Example: rackmedic node-kit --out rackmedic-kit")
def node_kit(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder to write into.")] = Path("rackmedic-kit"),
    sign: Annotated[
        Path | None, typer.Option("--sign", metavar="KEY", help="The site's SSH key (or its .pub, with an agent) that signs the kit.")
    ] = None,
) -> None:
    """Write the node kit: the two scripts that may run as root on a node.

    The folder also holds sudoers and sshd snippets and an installer.

    Nodes with /etc/rackmedic/allowed_signers install only what that key signed.
    """
    from bot.cli.node_kit import write_kit

    for path in call_or_exit(lambda: write_kit(out, sign)):
        print_text(path)
