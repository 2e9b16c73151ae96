"""`rackmedic bench …`: run the benchmark of a checkout."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bot.cli.command_runtime import ConfigOption, call_or_exit, exit_with_error, load_settings_or_exit, print_text

bench = typer.Typer(
    name="bench",
    help="Measure ways of diagnosing on simulated clusters; needs a checkout.",
    epilog="Example: rackmedic bench run --layer easy --n 10 --json out.json",
    no_args_is_help=True,
)


def _load_bench() -> Any:
    """Import the benchmark, which lives beside the tests and is not installed."""
    try:
        from tests.bench import cli
    except ModuleNotFoundError as error:
        exit_with_error(f"the benchmark is not installed here ({error.name}); run `rackmedic bench` in a checkout", 2)
    return cli


def is_bench_installed() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("tests.bench.cli") is not None
    except ModuleNotFoundError:
        return False


def score_cases(kb: Path | None, n: int | None) -> dict[str, bool]:
    """Return, by open case, whether RackMedic finds its cause with the site knowledge in folder `kb`. `n`: cases per layer."""
    answers: dict[str, bool] = _run_resumable(lambda: _load_bench().right_with(kb, n, _print_progress))
    return answers


def _print_progress(line: str) -> None:
    print_text(line, err=True)


def _run_resumable(act: Callable[[], Any]) -> Any:
    try:
        return call_or_exit(act)
    except KeyboardInterrupt:
        exit_with_error("interrupted; run the same command again to continue", 130)


def _get_command_line() -> str:
    import shlex

    return shlex.join(["rackmedic", *sys.argv[1:]])


@bench.command(name="run", epilog="Example: rackmedic bench run --layer easy --n 10 --json out.json")
def bench_run(
    out: Annotated[
        Path, typer.Option("--json", metavar="OUT", help="File for results; a journal beside it lets an interrupted run continue.")
    ],
    cases: Annotated[Path | None, typer.Option("--cases", metavar="DIR", help="Case files instead of generated ones.")] = None,
    layer: Annotated[str, typer.Option(help="easy, hard, composite, unseen, control, several with commas, or all.")] = "all",
    n: Annotated[int | None, typer.Option("--n", min=1, help="Cases of each layer; default: the layer's own size.")] = None,
    draw: Annotated[int | None, typer.Option(min=1, help="So many cases of each layer instead, drawn by the seed.")] = None,
    arms: Annotated[
        str, typer.Option(help="Names with commas, `free` (without a model), `parts` (B8 without each part), or `all`.")
    ] = "free",
    seed: Annotated[str, typer.Option(help="Other seeds make other cases.")] = "1",
    seed_file: Annotated[Path | None, typer.Option(help="The sealed seed, in a file.")] = None,
    attempts: Annotated[int, typer.Option(min=1, help="Runs of each case with other random events; 3 gives pass^3.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    transport: Annotated[str, typer.Option(help="inprocess, or ssh: a real server for every node.")] = "inprocess",
    permute: Annotated[int | None, typer.Option(help="Run with the labels' names shuffled by this seed.")] = None,
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the model's answers in FILE, without its key.")] = None,
    replay: Annotated[Path | None, typer.Option(metavar="FILE", help="Answer from a recording, with no model and no network.")] = None,
    loop: Annotated[str, typer.Option(help="Play cases to their end instead, with approvers `yes`, `careful`, `nobody` or `all`.")] = "",
    bots: Annotated[int, typer.Option(min=1, max=4, help="With --loop: number of bots that share the work; approvers click at once.")] = 1,
    kb: Annotated[Path | None, typer.Option("--kb", metavar="DIR", help="Folder with causes and past incidents to use too.")] = None,
    config: ConfigOption = None,
) -> None:
    """Solve cases with several arms and write all figures. Progress goes to stderr."""
    bench_cli = _load_bench()
    selection = bench_cli.Wanted(
        out=out,
        cases=cases,
        layer=layer,
        draw=draw,
        n=n,
        arms=arms,
        seed=seed,
        seed_file=seed_file,
        attempts=attempts,
        jobs=jobs,
        transport=transport,
        permute=permute,
        record=record,
        replay=replay,
        loop=loop,
        bots=bots,
        command=_get_command_line(),
        kb=kb,
    )
    run = _run_resumable(lambda: bench_cli.run_bench(load_settings_or_exit(config), selection, _print_progress))
    print_text(f"{run['cases']} cases in {run['wall_seconds']:.0f} s: {out}", err=True)


@bench.command(name="report", epilog="Example: rackmedic bench report out.json --out REPORT.md")
def bench_report(
    results: Annotated[Path, typer.Argument(metavar="FILE", help="File that `bench run` wrote.")],
    out: Annotated[Path, typer.Option("--out", help="The Markdown file; pictures go beside it.")] = Path("REPORT.md"),
    made_by: Annotated[str, typer.Option(help="The command that made the results; default: the command stored in them.")] = "",
    gates: Annotated[Path | None, typer.Option(metavar="FILE", help="File that `bench gates --json` wrote.")] = None,
    loop: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="File that `bench run --loop` wrote; may be repeated.")] = None,
) -> None:
    """Write results as Markdown: intervals, pictures, gates and the hardest cases."""
    bench_cli = _load_bench()
    for path in _run_resumable(lambda: bench_cli.write_report(results, out, made_by, texts=True, gates=gates, loops=loop or ())):
        print_text(path)


@bench.command(name="publish", epilog="Example: rackmedic bench publish --out REPORT.md")
def bench_publish(
    out: Annotated[Path, typer.Option("--out", help="The Markdown file; pictures go beside it.")] = Path("tests/bench/REPORT.md"),
    seed: Annotated[str, typer.Option(help="Other seeds make other cases.")] = "1",
    n: Annotated[int | None, typer.Option("--n", min=1, help="Cases of each layer; default: the layer's own size.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    loop: Annotated[
        str, typer.Option(help="Policies of the closed loop to be played as well: yes, careful, nobody, `all`; default: none.")
    ] = "",
    work: Annotated[Path, typer.Option(help="Folder of results; an interrupted run continues from it.")] = Path("out/publish"),
    config: ConfigOption = None,
) -> None:
    """Write the whole report: all arms that can run, gates, published incidents.

    The closed loop is included if you ask for it.
    """
    bench_cli = _load_bench()
    publishing = bench_cli.Publishing(out, seed, n, jobs, loop, work)
    for path in _run_resumable(lambda: bench_cli.publish(load_settings_or_exit(config), publishing, _print_progress)):
        print_text(path)


@bench.command(name="questions", epilog="Example: rackmedic bench questions --json questions.json")
def bench_questions(
    out: Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write all figures to this JSON file.")] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask the configured model and keep its answers in FILE; stored answers are reused."),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use the answers in FILE instead of the recording of this checkout.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Measure metrics A, B and C and print them as tables.

    A: what a conversation says. B: the right check and a drafted check. C: the cause.
    """
    bench_cli = _load_bench()
    print_text(_run_resumable(lambda: bench_cli.ask_questions(load_settings_or_exit(config), record, replay, out, _print_progress)))


@bench.command(name="dialogue", epilog="Example: rackmedic bench dialogue --json dialogue.json")
def bench_dialogue(
    out: Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write every answer and its mark to this JSON file.")] = None,
    held_out: Annotated[bool, typer.Option("--held-out", help="Play the half that is kept aside instead.")] = False,
    only: Annotated[str, typer.Option(help="Situations, with commas: 01,07; default: all.")] = "",
    model: Annotated[bool, typer.Option("--model", help="With the configured model.")] = False,
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the model's answers in FILE, without its key.")] = None,
    replay: Annotated[Path | None, typer.Option(metavar="FILE", help="Answer from a recording, with no model and no network.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    config: ConfigOption = None,
) -> None:
    """Play messages in incidents' threads and mark the answers.

    The authors of the messages knew neither code nor tests. Each message is played on its own, after the first report.
    """
    bench_cli = _load_bench()
    options = {"model": model, "held_out": held_out, "only": only, "jobs": jobs}
    print_text(
        _run_resumable(lambda: bench_cli.play_dialogue(load_settings_or_exit(config), record, replay, out, _print_progress, **options))
    )


@bench.command(name="new-case", epilog="Example: rackmedic bench new-case case.yaml --fault N04")
def bench_new_case(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    layer: Annotated[str, typer.Option(help="easy, hard, composite, unseen or control.")] = "hard",
    fault: Annotated[str, typer.Option(help="A fault of the catalogue, for example N04.")] = "",
    seed: Annotated[str, typer.Option(help="Another seed makes another case.")] = "1",
) -> None:
    """Write one case to start from; edit it and check it with `bench lint`."""
    bench_cli = _load_bench()
    print_text(_run_resumable(lambda: bench_cli.new_case(out, layer, seed, fault)))


@bench.command(name="gates", epilog="Example: rackmedic bench gates")
def bench_gates(
    seed: Annotated[str, typer.Option(help="Seed of the cases.")] = "1",
    n: Annotated[int | None, typer.Option("--n", min=1, help="Cases of each layer; default: the layer's own size.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    freeze: Annotated[bool, typer.Option("--freeze", help="Measure the baselines again and store their scores.")] = False,
    out: Annotated[Path | None, typer.Option("--json", metavar="OUT", help="The same as JSON, for `bench report --gates`.")] = None,
) -> None:
    """Test whether the benchmark is honest.

    Gates: wording, duplicates, well-posed cases, difficulty, other names for labels. Exit 1 when one fails.
    """
    bench_cli = _load_bench()
    if not _run_resumable(lambda: bench_cli.try_gates(seed, n, jobs, out, _print_progress, print_text, anew=freeze)):
        raise typer.Exit(1)


@bench.command(name="lint", epilog="Example: rackmedic bench lint case.yaml")
def bench_lint(cases: Annotated[Path, typer.Argument(metavar="CASES", help="A case file, or a folder of them.")]) -> None:
    """Test whether cases are readable, visible to a check and solved by the oracle.

    Exit 1 when one is not.
    """
    bench_cli = _load_bench()
    if _run_resumable(lambda: bench_cli.lint(cases, print_text)):
        raise typer.Exit(1)
