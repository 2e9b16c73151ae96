"""`rackmedic …`: parse arguments, call, print. Heavy imports wait inside the commands, so that --help answers at once."""

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from bot.terminal.bench import bench
from bot.terminal.shared import Config, fail
from bot.terminal.shared import settings as _settings

app = typer.Typer(
    name="rackmedic",
    help="Finds out why GPU training broke: looks at the nodes, says what is wrong with the lines that prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; everything else goes to stderr.")]
Inventory = Annotated[
    Path | None, typer.Option("--inventory", "-i", help="The fleet's YAML, or slurm: kubernetes: ansible:FILE; default: the setting.")
]


def _run(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Run an async command; its value is the exit code, Ctrl-C is 130."""
    import asyncio

    from bot.refusal import Refusal
    from bot.run.garbage import calm

    calm()
    try:
        code = asyncio.run(work())
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        code = 130
    except Refusal as why:
        fail(str(why), why.code)
    raise typer.Exit(code)


def _catalogue(config: Path | None) -> Any:
    from bot.refusal import Refusal
    from bot.run.catalogue import catalogue

    try:
        return catalogue(_settings(config).kb_dir)
    except Refusal as why:
        fail(str(why), why.code)


@app.command()
def demo(port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0) -> None:
    """A simulated GPU cluster, a local Slack page and the real bot, until Ctrl-C."""
    from bot.settings import environment

    try:
        from deploy.sandbox.demo import demo as play
    except ModuleNotFoundError as why:
        fail(f"the sandbox is not installed here ({why.name}); run `make demo` in a checkout")
    _run(lambda: play(environment(), port))


@app.command()
def serve(
    config: Config = None,
    front: Annotated[bool, typer.Option("--front", help="Only listen: workers on the same Redis do the rest.")] = False,
) -> None:
    """The bot: listen to Slack, diagnose, hand off. Stops cleanly on SIGTERM; everything resumes at the next start."""
    settings = _settings(config)
    from bot.settings import missing_for_serve

    if problems := missing_for_serve(settings):
        for problem in problems:
            typer.echo(problem, err=True)
        fail(f"{len(problems)} setting(s) missing", 2)
    from bot.run.serve import serve as run
    from bot.run.workers import own_command

    worker = own_command("worker", "--beside", *(["--config", str(config)] if config else []))
    _run(lambda: run(settings, worker, front=front))


@app.command()
def worker(config: Config = None, beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False) -> None:
    """Diagnose and repair what front ends on the same Redis took in. Run as many as you like, on any machine."""
    from bot.run.serve import work

    _run(lambda: work(_settings(config), beside=beside))


@app.command()
def diagnose(
    text: Annotated[str, typer.Argument(help="What is wrong, as you would write it in Slack; `-` reads stdin.")] = "",
    hosts: Annotated[str, typer.Option("--hosts", help="Hosts to look at: gpu-[001-004], group names, commas.")] = "",
    inventory: Inventory = None,
    attach: Annotated[list[Path] | None, typer.Option("--attach", help="A log file to read along; may be repeated.")] = None,
    sandbox: Annotated[
        Path | None, typer.Option("--sandbox", help="A case file: diagnose its simulated cluster instead of real hosts.")
    ] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Diagnose once from the terminal, with the same reasoning as in Slack. Changes nothing on any host."""
    from bot.terminal.diagnose import Question, diagnose_once

    said = sys.stdin.read() if text == "-" else text
    if not said and sandbox is None:
        fail("say what is wrong, for example: rackmedic diagnose 'job 4711 hangs' --hosts gpu-[001-004]", 2)
    question = Question(said, hosts, inventory, tuple(attach or ()), sandbox)
    _run(lambda: diagnose_once(_settings(config), question, as_json=json))


@app.command()
def look(
    hosts: Annotated[str, typer.Argument(help="Hosts or groups of the inventory: gpu-[001-128], train; or a job: job:4711.")],
    checks: Annotated[list[str] | None, typer.Argument(metavar="[CHECK]...", help="Checks to run; default: all passive ones.")] = None,
    inventory: Inventory = None,
    heat: Annotated[str, typer.Option(metavar="KEY", help="A heat map of this number over hosts and GPUs: gpu.temp.core.")] = "",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the heat map as .png or .svg.")] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Allow checks that take whole GPUs, on hosts where nobody uses them.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask the hosts anew; from the terminal that is always so.")] = True,
    sandbox: Annotated[Path | None, typer.Option("--sandbox", help="A case file: look at its simulated cluster.")] = None,
    config: Config = None,
    json: Annotated[bool, typer.Option("--json", help="Facts as JSON lines on stdout, as hosts answer.")] = False,
) -> None:
    """Run checks on hosts and show what differs: identical answers folded, what could not be looked at apart. Changes nothing."""
    from bot.terminal.look import Wanted, look_once

    if out and not heat:
        fail("--out writes a heat map: say which number with --heat, for example --heat gpu.temp.core", 2)
    if heat and json:
        fail("--heat draws and --json prints facts: choose one", 2)
    wanted = Wanted(hosts, tuple(checks or ()), inventory, sandbox, heat, out, exclusive, json)
    _run(lambda: look_once(_settings(config), wanted))


@app.command()
def job(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="A Slurm job id such as 4711 or 4711_3.")],
    inventory: Inventory = None,
    sandbox: Annotated[Path | None, typer.Option("--sandbox", help="A case file: ask its simulated scheduler.")] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """What the scheduler says of a job: its hosts, ranks, state and environment."""
    from bot.terminal.job import show_job
    from bot.terminal.look import looking

    async def ask() -> int:
        async with looking(_settings(config), inventory, sandbox) as world:
            return await show_job(world, job_id, as_json=json)

    _run(ask)


@app.command()
def classify(
    text: Annotated[str, typer.Argument(help="A report, with or without log lines; `-` reads stdin.")],
    most: Annotated[int, typer.Option("--most", min=1, help="Labels to print.")] = 10,
    config: Config = None,
    json: Json = False,
) -> None:
    """Which root causes a text sounds like, from the text alone: a ranking, never a diagnosis."""
    from bot.terminal.classify import classify_text

    said = sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text
    if not said.strip():
        fail("there is no text to classify", 2)
    _run(lambda: classify_text(_settings(config), said, most, as_json=json))


@app.command()
def parse(check: Annotated[str, typer.Argument(help="A check's id, see `rackmedic checks`.")], config: Config = None) -> None:
    """Read a command's output from stdin and print its facts as JSON lines. What cannot be read is a fact too."""
    from bot.terminal.catalogues import parse_lines
    from tools.checks import CHECKS

    known = CHECKS if check in CHECKS else _catalogue(config)
    if check not in known:
        fail(f"there is no check {check!r}; known: {' '.join(known)}", 2)
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    for line in parse_lines(known[check], text):
        typer.echo(line)


@app.command()
def checks(config: Config = None, json: Json = False) -> None:
    """The catalogue of checks, a site's own included: what each asks, how, and what it establishes."""
    from bot.terminal.catalogues import check_rows, show

    show("Checks", check_rows(_catalogue(config)), json)


@app.command()
def taxonomy(config: Config = None, json: Json = False) -> None:
    """Every label RackMedic can claim, and what decides it."""
    from bot.terminal.catalogues import show, taxonomy_rows

    show("Taxonomy", taxonomy_rows(_settings(config).kb_dir), json)


@app.command()
def remedies(json: Json = False) -> None:
    """Every remedy: what it does, its risk, what must be true, what proves it. None of them runs without approval."""
    from bot.terminal.catalogues import show
    from bot.terminal.remedy_tables import remedy_rows

    show("Remedies", remedy_rows(), json)


@app.command(name="dry-run")
def dry_run(
    remedy: Annotated[str, typer.Argument(help="A remedy's id, see `rackmedic remedies`.")],
    host: Annotated[str, typer.Argument(help="The host that would be changed.")],
    values: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Its arguments: bdf=0000:9b:00.0.")] = None,
    inventory: Inventory = None,
    sandbox: Annotated[Path | None, typer.Option("--sandbox", help="A case file: try it on its simulated cluster.")] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """What a remedy would run, where, and what would stop it now. Reads only. Exit 1 where something that must be true is not."""
    from bot.terminal.dry_run import Asked, rehearse

    asked = Asked(remedy, host, tuple(values or ()), inventory, sandbox, json)
    _run(lambda: rehearse(_settings(config), asked))


@app.command(name="node-kit")
def node_kit(out: Annotated[Path, typer.Option("--out", help="Folder to write into.")] = Path("rackmedic-kit")) -> None:
    """Write the two scripts that may run as root on a node, with sudoers and sshd snippets and an installer."""
    from bot.terminal.nodekit_cmd import write_kit

    for path in write_kit(out):
        typer.echo(path)


audit = typer.Typer(name="audit", help="The audit log of approvals and actions: verify its chain, or export it.", no_args_is_help=True)
app.add_typer(audit)


@audit.command(name="verify")
def audit_verify(
    head: Annotated[list[str] | None, typer.Option("--head", help="A head from the log or a channel; a chain without it was cut.")] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Walk the chain. Exit 1 when an entry was altered, removed or cut off."""
    from bot.terminal.ledger import verify

    _run(lambda: verify(_settings(config), tuple(head or ()), as_json=json))


@audit.command(name="export")
def audit_export(config: Config = None) -> None:
    """Every entry as JSON lines, oldest first."""
    from bot.terminal.ledger import export

    _run(lambda: export(_settings(config)))


@app.command()
def stop(why: Annotated[str, typer.Argument(help="Why; it is shown to everybody.")] = "", config: Config = None) -> None:
    """The kill switch: no remedy starts until `rackmedic resume`. What runs goes on and is reported."""
    from bot.terminal.ledger import stop as pull

    _run(lambda: pull(_settings(config), why))


@app.command()
def resume(
    group: Annotated[str, typer.Option("--breaker", help="Reset this group's breaker instead.")] = "", config: Config = None
) -> None:
    """Take the kill switch off, or reset a group's tripped breaker after looking."""
    from bot.terminal.ledger import resume as let_go

    _run(lambda: let_go(_settings(config), group))


@app.command()
def status(config: Config = None, json: Json = False) -> None:
    """The brakes as they stand: kill switch, breakers, what runs, what is in doubt."""
    from bot.terminal.ledger import status as look

    _run(lambda: look(_settings(config), as_json=json))


@app.command()
def settings(json: Json = False) -> None:
    """Every setting, its default and what it is for."""
    from bot.terminal.catalogues import setting_rows, show

    show("Settings", setting_rows(), json)


@app.command()
def manifest() -> None:
    """The Slack app manifest that matches this version; paste it at api.slack.com/apps."""
    from bot.slack.manifest import as_yaml

    typer.echo(as_yaml(), nl=False)


@app.command()
def doctor(
    config: Config = None, hosts: Annotated[str, typer.Option("--hosts", help="Hosts to try; default: all.")] = "", json: Json = False
) -> None:
    """Try every part RackMedic needs and say how to mend what fails. Exit 1 when something must be mended."""
    from bot.terminal.doctor import examine

    _run(lambda: examine(_settings(config), hosts, as_json=json))


app.add_typer(bench)


def main() -> None:
    """Console entry point."""
    app()


if __name__ == "__main__":
    main()
