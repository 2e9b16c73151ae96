"""Commands that diagnose from a terminal; none changes a host."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_runtime import (
    AttachOption,
    ConfigOption,
    HostsOption,
    InventoryOption,
    JsonOption,
    SandboxOption,
    call_or_exit,
    exit_with_error,
    load_settings_or_exit,
    print_text,
    replace_surrogates,
    run_async_command,
)
from bot.cli.commands.expect_commands import expect

PANEL = "Ask from a terminal; changes nothing on any host"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic diagnose 'job 4711 hangs' --hosts gpu-[001-004]")
def diagnose(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is wrong, as you would write it in Slack; `-` reads stdin.")] = "",
    hosts: HostsOption = "",
    inventory: InventoryOption = None,
    attach: AttachOption = None,
    sandbox: SandboxOption = None,
    replies: Annotated[
        Path | None, typer.Option("--replies", metavar="FILE", help="Replies in the thread: a YAML list of {after, by, text}.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Diagnose a problem once, with the same reasoning as in Slack.

    Changes nothing on any host.
    """
    from bot.cli.command_requests import DiagnoseRequest, load_replies, read_logs, read_piped_text

    report_text = call_or_exit(read_piped_text) if text == "-" else text
    request = call_or_exit(
        lambda: DiagnoseRequest(replace_surrogates(report_text), hosts, inventory, read_logs(attach or ()), sandbox, load_replies(replies))
    )
    settings = load_settings_or_exit(config)
    from bot.cli.diagnose import run_diagnose_command

    run_async_command(lambda: run_diagnose_command(settings, request, as_json=json))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic chat 'job 4711 hangs' -i inventory.yaml")
def chat(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is wrong, as you would write it in Slack; default: prompt.")] = "",
    hosts: HostsOption = "",
    inventory: InventoryOption = None,
    attach: AttachOption = None,
    sandbox: SandboxOption = None,
    by: Annotated[str, typer.Option("--as", metavar="NAME", help="Your name in the conversation; it proves no identity.")] = "you",
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Folder for outputs, pictures and the report; default: print them.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Diagnose, then discuss the diagnosis line by line, as in a Slack thread.

    Changes nothing on any host and approves nothing.

    With --sandbox, over a simulated cluster, remedies are decided too, by the same ledger and roles as in Slack; each has a number.

    Begin a line with a name to speak as that person: @priya approve 1 · @anton reject 1 WHY · @olga why? · /wait 30m · /help lists more.
    """
    from bot.cli.command_requests import DiagnoseRequest, read_logs

    first_message = text if text or sandbox else _prompt_for_problem()
    request = call_or_exit(lambda: DiagnoseRequest(replace_surrogates(first_message), hosts, inventory, read_logs(attach or ()), sandbox))
    settings = load_settings_or_exit(config)
    from bot.cli.chat import run_chat

    run_async_command(lambda: run_chat(settings, request, by, as_json=json, save=save))


def _prompt_for_problem() -> str:
    """Prompt for the problem, or read the first piped line."""
    if not sys.stdin.isatty():
        from bot.cli.piped_input import read_first_piped_line

        return read_first_piped_line().strip()
    try:
        return str(typer.prompt("What is wrong?", prompt_suffix=" ", err=True))
    except typer.Abort:
        exit_with_error("interrupted", 130)


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic look gpu-[001-128] smi dmesg")
def look(
    hosts: Annotated[
        str, typer.Argument(metavar="HOSTS", help="Hosts or groups of the inventory: gpu-[001-128], train; or a job: job:4711.")
    ],
    checks: Annotated[list[str] | None, typer.Argument(metavar="CHECK", help="Checks to run; default: all passive ones.")] = None,
    inventory: InventoryOption = None,
    heat: Annotated[str, typer.Option(metavar="KEY", help="Show a heat map of this number over hosts and GPUs: gpu.temp.core.")] = "",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the heat map as .png or .svg.")] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Allow checks that need whole GPUs, on hosts where the GPUs are idle.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", show_default=False, help="Query the hosts again; the terminal always does.")] = True,
    sandbox: SandboxOption = None,
    config: ConfigOption = None,
    json: Annotated[bool, typer.Option("--json", help="Facts as JSON lines on stdout, as hosts answer.")] = False,
) -> None:
    """Run checks on hosts and show how the hosts differ. Changes nothing.

    Hosts with the same answers are grouped; hosts that could not be observed are listed apart.
    """
    from bot.cli.command_requests import LookRequest

    request = call_or_exit(lambda: LookRequest(hosts, tuple(checks or ()), inventory, sandbox, heat, out, exclusive, json))
    settings = load_settings_or_exit(config)
    from bot.cli.look import run_look_command

    run_async_command(lambda: run_look_command(settings, request))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic job 4711 -i inventory.yaml")
def job(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="A Slurm job id such as 4711 or 4711_3.")],
    inventory: InventoryOption = None,
    sandbox: SandboxOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show what the scheduler says of a job: hosts, ranks, state and environment."""
    settings = load_settings_or_exit(config)
    from bot.cli.job import run_job_command

    run_async_command(lambda: run_job_command(settings, job_id, inventory, sandbox, as_json=json))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic classify 'NCCL error: GPU has fallen off the bus'")
def classify(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A report, with or without log lines; `-` reads stdin.")],
    most: Annotated[int, typer.Option("--most", min=1, help="Maximum number of labels.")] = 10,
    rules: Annotated[bool, typer.Option("--rules", help="Ask no model, even if one is set.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Rank the root causes that a text sounds like. This is not a diagnosis.

    Reads the text alone and asks no host.
    """
    report_text = sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text
    if not report_text.strip():
        exit_with_error("there is no text to classify: write it, or pipe it in with `-`", 2)
    settings = load_settings_or_exit(config)
    from bot.cli.classify import classify_text

    run_async_command(lambda: classify_text(settings, report_text, most, as_json=json, by_rules=rules))


@commands.command(rich_help_panel=PANEL, epilog="Example: dmesg | rackmedic parse dmesg")
def parse(
    check: Annotated[str, typer.Argument(metavar="CHECK", help="Id of a check from `rackmedic checks`.")], config: ConfigOption = None
) -> None:
    """Parse the output of a check from stdin and print its facts as JSON lines.

    Output that cannot be read is a fact too. Exit 1 when nothing could be read.
    """
    from bot.app.site_files import load_all_checks
    from bot.cli.catalogue_tables import find_unread_reason, format_fact_line, parse_check_output
    from tools.checks import CHECKS
    from tools.checks.site.rule_matching import LOG_READING_CHECKS

    settings = load_settings_or_exit(config) if check not in CHECKS or check in LOG_READING_CHECKS else None
    checks = call_or_exit(lambda: load_all_checks(settings)) if settings else CHECKS
    if check not in checks:
        exit_with_error(f"there is no check {check!r}; known: {' '.join(checks)}", 2)
    facts = parse_check_output(checks[check], sys.stdin.buffer.read().decode("utf-8", "replace"))
    for fact in facts:
        print_text(format_fact_line(fact))
    if unread_reason := find_unread_reason(facts):
        exit_with_error(f"nothing was read: {unread_reason}")


@commands.command(name="dry-run", rich_help_panel=PANEL, epilog="Example: rackmedic dry-run gpu_reset gpu-017 bdf=0000:9b:00.0")
def dry_run(
    remedy: Annotated[str, typer.Argument(metavar="REMEDY", help="Id of a remedy from `rackmedic remedies`.")],
    host: Annotated[str, typer.Argument(metavar="HOST", help="The host that would be changed.")],
    values: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Arguments of the remedy: bdf=0000:9b:00.0.")] = None,
    inventory: InventoryOption = None,
    sandbox: SandboxOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a remedy would run, where, and what would stop it now.

    Reads only. Exit 1 when a precondition does not hold.
    """
    from bot.cli.command_requests import DryRunRequest

    request = call_or_exit(lambda: DryRunRequest(remedy, host, tuple(values or ()), inventory, sandbox, json))
    settings = load_settings_or_exit(config)
    from bot.cli.dry_run import run_dry_run_command

    run_async_command(lambda: run_dry_run_command(settings, request))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic report inc-1a2b3c --out inc-1a2b3c.pdf")
def report(
    incident: Annotated[str, typer.Argument(metavar="INCIDENT", help="The incident's id, as its card shows it: inc-1a2b3c.")],
    form: Annotated[str, typer.Option("--format", metavar="md|pdf", help="Default: from the name of the file, else Markdown.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write; `-` or default: stdout.", allow_dash=True)
    ] = None,
    customer: Annotated[
        bool, typer.Option("--customer", help="Only what the customer who reported it may see, in their words and language.")
    ] = False,
    inventory: InventoryOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write an incident report: timeline, evidence, attempts, approvals and charts.

    It also lists what is still held. It is read from the Redis that `rackmedic serve` uses, for open incidents too.

    It contains no secrets. Names of people come from Slack if its token is set.
    """
    from bot.cli.incident_report import PostmortemRequest, write_report

    request = call_or_exit(lambda: PostmortemRequest(incident, form, out, customer, json))
    settings = load_settings_or_exit(config)
    from bot.cli.cluster_access import replace_inventory

    settings = replace_inventory(settings, inventory)
    run_async_command(lambda: write_report(settings, request))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic explain inc-1a2b3c --verify")
def explain(
    incident: Annotated[str, typer.Argument(metavar="INCIDENT", help="The incident's id, as its card shows it: inc-1a2b3c.")] = "",
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every contract over the stored reasoning; exit 1 if one is broken.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the reasoning to FILE; `-`: stdout.", allow_dash=True)
    ] = None,
    sandbox: SandboxOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Explain the latest diagnosis: each cause with evidence for and against it.

    Also shows what changed the belief in a cause and what the cause calls for.

    Reads the Redis and the data folder that `rackmedic serve` uses and asks no host. With --sandbox, diagnoses a simulated case first.
    """
    from bot.cli.explain import ExplainRequest, explain_incident

    request = call_or_exit(lambda: ExplainRequest(incident, sandbox, svg, verify, json))
    settings = load_settings_or_exit(config)
    run_async_command(lambda: explain_incident(settings, request))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic picture inc-1a2b3c --kind timeline --out timeline.png")
def picture(
    incident: Annotated[str, typer.Argument(metavar="INCIDENT", help="The incident's id, as its card shows it: inc-1a2b3c.")],
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="heatmap|bandwidth|walk|timeline",
            help="A number of every GPU; how fast hosts are at each message size; what was looked into; what happened when.",
            autocompletion=lambda: ["heatmap", "bandwidth", "walk", "timeline"],
        ),
    ] = "timeline",
    key: Annotated[
        str, typer.Option("--key", metavar="KEY", help="Number for the heat map: gpu.temp.core; default: the deciding one.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it as .png or .svg; default: a table on stdout.")] = None,
    inventory: InventoryOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Render an incident chart as a file, or as a text table.

    Read from the Redis that `rackmedic serve` uses, for open incidents too. The table is printed without --out, and in a terminal always.
    """
    from bot.cli.picture import PictureRequest, run_picture_command

    request = call_or_exit(lambda: PictureRequest(incident, kind, key, out, json))
    settings = load_settings_or_exit(config)
    from bot.cli.cluster_access import replace_inventory

    settings = replace_inventory(settings, inventory)
    run_async_command(lambda: run_picture_command(settings, request))


commands.add_typer(expect, rich_help_panel=PANEL)
