"""`rackmedic …`: parse arguments, call, print. Heavy imports wait inside the commands, so that --help answers at once."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bot.terminal.bench import bench
from bot.terminal.edge import answer, fail, run
from bot.terminal.edge import settings as settings_of
from bot.terminal.options import Config, Inventory, Json, Sandbox

BEGIN, BOT, ASK = "Begin here", "The bot", "Ask from a terminal; changes nothing on any host"
KNOWN, BRAKES, MEASURE = "What RackMedic knows", "Brakes and audit", "Measure"
"""Groups of commands in `--help`, in the order in which they are met."""

app = typer.Typer(
    name="rackmedic",
    help="Finds out why GPU training broke: looks at the nodes, says what is wrong with the lines that prove it.",
    epilog="`rackmedic COMMAND --help` tells more of one. Remedies run only where people approve them in Slack.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(rich_help_panel=BEGIN)
def demo(port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0) -> None:
    """A simulated GPU cluster, a local Slack page and the real bot, until Ctrl-C."""
    from bot.settings import environment

    try:
        from deploy.sandbox.demo import demo as play
    except ModuleNotFoundError as why:
        fail(f"the sandbox is not installed here ({why.name}); run `make demo` in a checkout")
    run(lambda: play(environment(), port))


@app.command(
    rich_help_panel=BEGIN,
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

        typer.echo(template(str(folder)), nl=False)
        return
    from bot.terminal.setup.asking import ask
    from bot.terminal.setup.begin import begin

    run(lambda: begin(folder.absolute(), answers, ask, again=again, attempt=attempt, as_json=json))


@app.command(rich_help_panel=BEGIN)
def settings(config: Config = None, json: Json = False) -> None:
    """Every setting: its default, what is set, and what it is for. Exit 2 where what is set cannot be used."""
    from bot.settings import BadSettings, load
    from bot.terminal.catalogues import setting_rows, show

    try:
        show("Settings", setting_rows(load(config)), json)
    except BadSettings:
        show("Settings", setting_rows(), json)
        settings_of(config)


@app.command(rich_help_panel=BEGIN)
def doctor(
    config: Config = None,
    hosts: Annotated[str, typer.Option("--hosts", metavar="HOSTS", help="Hosts to try; default: all.")] = "",
    json: Json = False,
) -> None:
    """Try every part RackMedic needs and say how to mend what fails. Exit 1 when something must be mended."""
    settings = settings_of(config)
    from bot.terminal.doctor import examine

    run(lambda: examine(settings, hosts, as_json=json))


@app.command(rich_help_panel=BEGIN)
def manifest() -> None:
    """The Slack app manifest that matches this version; paste it at api.slack.com/apps."""
    from bot.slack.manifest import as_yaml

    typer.echo(as_yaml(), nl=False)


@app.command(name="node-kit", rich_help_panel=BEGIN)
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
        typer.echo(path)


@app.command(rich_help_panel=BOT)
def serve(
    config: Config = None,
    front: Annotated[bool, typer.Option("--front", help="Only listen: workers on the same Redis do the rest.")] = False,
) -> None:
    """The bot: listen to Slack, diagnose, hand off. Stops cleanly on SIGTERM; everything resumes at the next start."""
    settings = settings_of(config)
    from bot.settings import missing_for_serve

    if problems := missing_for_serve(settings):
        for problem in problems:
            typer.echo(problem, err=True)
        fail(f"{len(problems)} setting(s) missing", 2)
    from bot.run.serve import serve as listen
    from bot.run.workers import own_command

    worker = own_command("worker", "--beside", *(["--config", str(config)] if config else []))
    run(lambda: listen(settings, worker, front=front))


@app.command(rich_help_panel=BOT)
def worker(
    config: Config = None,
    name: Annotated[
        str, typer.Option("--name", help="What this worker is called among those of its machine; the same after a restart.")
    ] = "worker",
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Diagnose and repair what front ends on the same Redis took in. Run as many as you like, on any machine."""
    settings = settings_of(config)
    from bot.run.serve import work

    run(lambda: work(settings, beside=beside, name=name))


@app.command(rich_help_panel=ASK, epilog="Example: rackmedic diagnose 'job 4711 hangs' --hosts gpu-[001-004] -i inventory.yaml")
def diagnose(
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="What is wrong, as you would write it in Slack; `-` reads stdin.")] = "",
    hosts: Annotated[str, typer.Option("--hosts", metavar="HOSTS", help="Hosts to look at: gpu-[001-004], group names, commas.")] = "",
    inventory: Inventory = None,
    attach: Annotated[
        list[Path] | None, typer.Option("--attach", metavar="FILE", help="A log file to read along; may be given again.")
    ] = None,
    sandbox: Sandbox = None,
    replies: Annotated[
        Path | None, typer.Option("--replies", metavar="FILE", help="What is said in the thread: a YAML list of {after, by, text}.")
    ] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Diagnose once from the terminal, with the same reasoning as in Slack. Changes nothing on any host."""
    from bot.terminal.requests import DiagnoseRequest, read_logs, replies_of

    said = sys.stdin.read() if text == "-" else text
    request = answer(lambda: DiagnoseRequest(said, hosts, inventory, read_logs(attach or ()), sandbox, replies_of(replies)))
    settings = settings_of(config)
    from bot.terminal.diagnose import diagnose_once

    run(lambda: diagnose_once(settings, request, as_json=json))


@app.command(rich_help_panel=ASK, epilog="Example: rackmedic look gpu-[001-128] smi dmesg")
def look(
    hosts: Annotated[
        str, typer.Argument(metavar="HOSTS", help="Hosts or groups of the inventory: gpu-[001-128], train; or a job: job:4711.")
    ],
    checks: Annotated[list[str] | None, typer.Argument(metavar="[CHECK]...", help="Checks to run; default: all passive ones.")] = None,
    inventory: Inventory = None,
    heat: Annotated[str, typer.Option(metavar="KEY", help="A heat map of this number over hosts and GPUs: gpu.temp.core.")] = "",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the heat map as .png or .svg.")] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Allow checks that take whole GPUs, on hosts where nobody uses them.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", show_default=False, help="Ask the hosts anew; from the terminal that is always so.")
    ] = True,
    sandbox: Sandbox = None,
    config: Config = None,
    json: Annotated[bool, typer.Option("--json", help="Facts as JSON lines on stdout, as hosts answer.")] = False,
) -> None:
    """Run checks on hosts and show what differs: identical answers folded, what could not be looked at apart. Changes nothing."""
    from bot.terminal.requests import LookRequest

    request = answer(lambda: LookRequest(hosts, tuple(checks or ()), inventory, sandbox, heat, out, exclusive, json))
    settings = settings_of(config)
    from bot.terminal.look import look_once

    run(lambda: look_once(settings, request))


@app.command(rich_help_panel=ASK)
def job(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="A Slurm job id such as 4711 or 4711_3.")],
    inventory: Inventory = None,
    sandbox: Sandbox = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """What the scheduler says of a job: its hosts, ranks, state and environment."""
    settings = settings_of(config)
    from bot.terminal.job import job_once

    run(lambda: job_once(settings, job_id, inventory, sandbox, as_json=json))


@app.command(rich_help_panel=ASK)
def classify(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A report, with or without log lines; `-` reads stdin.")],
    most: Annotated[int, typer.Option("--most", min=1, help="Labels to print.")] = 10,
    config: Config = None,
    json: Json = False,
) -> None:
    """Which root causes a text sounds like, from the text alone: a ranking, never a diagnosis."""
    said = sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text
    if not said.strip():
        fail("there is no text to classify: write it, or pipe it in with `-`", 2)
    settings = settings_of(config)
    from bot.terminal.classify import classify_text

    run(lambda: classify_text(settings, said, most, as_json=json))


@app.command(rich_help_panel=ASK, epilog="Example: dmesg | rackmedic parse dmesg")
def parse(
    check: Annotated[str, typer.Argument(metavar="CHECK", help="A check's id, see `rackmedic checks`.")], config: Config = None
) -> None:
    """Read a command's output from stdin and print its facts as JSON lines. What cannot be read is a fact too."""
    from bot.run.site import site_checks
    from bot.terminal.catalogues import parse_lines
    from tools.checks import CHECKS

    known = CHECKS if check in CHECKS else answer(lambda: site_checks(settings_of(config)))
    if check not in known:
        fail(f"there is no check {check!r}; known: {' '.join(known)}", 2)
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    for line in parse_lines(known[check], text):
        typer.echo(line)


@app.command(name="dry-run", rich_help_panel=ASK, epilog="Example: rackmedic dry-run gpu_reset gpu-017 bdf=0000:9b:00.0 -i inventory.yaml")
def dry_run(
    remedy: Annotated[str, typer.Argument(metavar="REMEDY", help="A remedy's id, see `rackmedic remedies`.")],
    host: Annotated[str, typer.Argument(metavar="HOST", help="The host that would be changed.")],
    values: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Its arguments: bdf=0000:9b:00.0.")] = None,
    inventory: Inventory = None,
    sandbox: Sandbox = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """What a remedy would run, where, and what would stop it now. Reads only. Exit 1 where something that must be true is not."""
    from bot.terminal.requests import DryRunRequest

    request = answer(lambda: DryRunRequest(remedy, host, tuple(values or ()), inventory, sandbox, json))
    settings = settings_of(config)
    from bot.terminal.dry_run import dry_run_once

    run(lambda: dry_run_once(settings, request))


@app.command(rich_help_panel=KNOWN)
def checks(config: Config = None, json: Json = False) -> None:
    """The catalogue of checks, a site's own included: what each asks, how, and what it establishes."""
    settings = settings_of(config)
    from bot.run.site import site_checks
    from bot.terminal.catalogues import check_rows, show

    show("Checks", check_rows(answer(lambda: site_checks(settings))), json)


@app.command(rich_help_panel=KNOWN)
def remedies(json: Json = False) -> None:
    """Every remedy: what it does, its risk, what must be true, what proves it. None of them runs without approval."""
    from bot.terminal.catalogues import remedy_rows, show

    show("Remedies", remedy_rows(), json)


@app.command(rich_help_panel=KNOWN)
def taxonomy(config: Config = None, json: Json = False) -> None:
    """Every label RackMedic can claim, and what decides it."""
    kb_dir = settings_of(config).kb_dir
    from bot.run.site import site_taxonomy
    from bot.terminal.catalogues import show, taxonomy_rows

    show("Taxonomy", taxonomy_rows(answer(lambda: site_taxonomy(kb_dir))), json)


@app.command(rich_help_panel=BRAKES)
def stop(why: Annotated[str, typer.Argument(metavar="[WHY]", help="Why; it is shown to everybody.")] = "", config: Config = None) -> None:
    """The kill switch: no remedy starts until `rackmedic resume`. What runs goes on and is reported."""
    settings = settings_of(config)
    from bot.terminal.ledger import stop as pull

    run(lambda: pull(settings, why))


@app.command(rich_help_panel=BRAKES)
def resume(
    group: Annotated[str, typer.Option("--breaker", metavar="GROUP", help="Reset this group's breaker instead.")] = "",
    clock: Annotated[bool, typer.Option("--clock", help="Set the ledger's clock back to this machine's instead.")] = False,
    config: Config = None,
) -> None:
    """Take the kill switch off, or reset a group's tripped breaker after looking, or the ledger's clock after a machine ran ahead."""
    settings = settings_of(config)
    from bot.terminal.ledger import resume as let_go
    from bot.terminal.ledger import set_back

    run(lambda: set_back(settings) if clock else let_go(settings, group))


@app.command(rich_help_panel=BRAKES)
def status(config: Config = None, json: Json = False) -> None:
    """The brakes as they stand: kill switch, breakers, what runs, what is in doubt."""
    settings = settings_of(config)
    from bot.terminal.ledger import status as brakes

    run(lambda: brakes(settings, as_json=json))


@app.command(rich_help_panel=MEASURE)
def stats(
    days: Annotated[int, typer.Option("--days", min=1, help="Incidents opened in so many days.")] = 90,
    config: Config = None,
    json: Json = False,
) -> None:
    """How incidents went: how many, how soon diagnosed and mended, how often right by what humans closed them with, what people thought."""
    settings = settings_of(config)
    from bot.terminal.stats import show_stats

    run(lambda: show_stats(settings, days, as_json=json))


audit = typer.Typer(name="audit", help="The audit log of approvals and actions: verify its chain, or export it.", no_args_is_help=True)
app.add_typer(audit, rich_help_panel=BRAKES)


@audit.command(name="verify")
def audit_verify(
    head: Annotated[
        list[str] | None, typer.Option("--head", metavar="HASH", help="A head from the log or a channel; a chain without it was cut.")
    ] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Walk the chain. Exit 1 when an entry was altered, removed or cut off."""
    settings = settings_of(config)
    from bot.terminal.ledger import verify

    run(lambda: verify(settings, tuple(head or ()), as_json=json))


@audit.command(name="export")
def audit_export(config: Config = None) -> None:
    """Every entry as JSON lines, oldest first."""
    settings = settings_of(config)
    from bot.terminal.ledger import export

    run(lambda: export(settings))


app.add_typer(bench, rich_help_panel=MEASURE)


def main() -> None:
    """Console entry point."""
    app()


if __name__ == "__main__":
    main()
