"""Commands of the catalogues and of `kb`."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_runtime import call_or_exit, run_async_command
from bot.cli.command_runtime import load_settings_or_exit as settings_of
from bot.cli.options import ConfigOption, JsonOption

PANEL = "What RackMedic knows"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL)
def checks(config: ConfigOption = None, json: JsonOption = False) -> None:
    """The catalogue of checks, a site's own included: what each asks, how, and what it establishes."""
    settings = settings_of(config)
    from bot.app.site_files import load_all_checks
    from bot.cli.catalogue_tables import build_check_rows, print_catalogue

    print_catalogue("Checks", build_check_rows(call_or_exit(lambda: load_all_checks(settings))), json)


@commands.command(rich_help_panel=PANEL)
def remedies(json: JsonOption = False) -> None:
    """Every remedy: what it does, its risk, what must be true, what proves it. None of them runs without approval."""
    from bot.cli.catalogue_tables import build_remedy_rows, print_catalogue

    print_catalogue("Remedies", build_remedy_rows(), json)


@commands.command(rich_help_panel=PANEL)
def taxonomy(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Every label RackMedic can claim, and what decides it."""
    kb_dir = settings_of(config).kb_dir
    from bot.app.site_files import load_site_taxonomy
    from bot.cli.catalogue_tables import build_taxonomy_rows, print_catalogue

    print_catalogue("Taxonomy", build_taxonomy_rows(call_or_exit(lambda: load_site_taxonomy(kb_dir))), json)


@commands.command(rich_help_panel=PANEL)
def guides(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One of them, with its steps; without it all.")] = "",
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Troubleshooting guides that run as plans: ours and the site's own. In a thread: `run guide NAME`."""
    settings = settings_of(config)
    from bot.cli.kb import guide_command as told

    raise typer.Exit(call_or_exit(lambda: told.print_guides(settings, name, as_json=json)))


kb = typer.Typer(help="What is known of past incidents: search it, show it, count it, check a folder of your own.", no_args_is_help=True)
commands.add_typer(kb, name="kb", rich_help_panel=PANEL)
QueryTextArgument = Annotated[str, typer.Argument(metavar="TEXT", help="What somebody reported, or a few words.")]
EntryIdArgument = Annotated[str, typer.Argument(metavar="ID", help="As search and list name it: a label, an incident, a page.")]
LimitOption = Annotated[int, typer.Option("--most", "-n", min=1, max=100, help="How many.")]


@kb.command()
def search(
    text: QueryTextArgument,
    most: LimitOption = 5,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Past incidents and pages that a text is like, best first. Exit 1 where nothing is like it."""
    settings = settings_of(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.search_knowledge(settings, text, most, as_json=json)))


@kb.command()
def show(
    name: EntryIdArgument,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """One thing that is known, whole, with its source."""
    settings = settings_of(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.print_entry(settings, name, as_json=json)))


@kb.command("list")
def list_all(
    kind: Annotated[str, typer.Option("--kind", metavar="leaf|incident|page", help="Of one kind.")] = "",
    label: Annotated[str, typer.Option("--label", metavar="LABEL", help="Below a label or a branch, as GPU.BUS.")] = "",
    own: Annotated[bool, typer.Option("--own", help="The site's own alone.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Everything that is known, a line each."""
    settings = settings_of(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.print_entries(settings, kind, label, ours=own, as_json=json)))


@kb.command()
def stats(config: ConfigOption = None, json: JsonOption = False) -> None:
    """How much is known of what, and of which leaves no past incident tells."""
    settings = settings_of(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.print_knowledge_stats(settings, as_json=json)))


@kb.command()
def lint(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A folder with taxonomy/, checks/, rules/, incidents/, pages/, guides/ or sku/; default: the setting."),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Everything that is wrong with a folder of knowledge, each with its file and line. Exit 1 where anything is."""
    settings = settings_of(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.lint_folder(settings, folder, as_json=json)))


@kb.command()
def add(
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="How it showed, in one line.")],
    seen: Annotated[str, typer.Option("--seen", metavar="TEXT", help="What was seen, in the words of whoever reported it.")],
    label: Annotated[str, typer.Option("--label", metavar="LABEL", help="What it was, of `rackmedic taxonomy`.")],
    cause: Annotated[str, typer.Option("--cause", metavar="TEXT", help="The root cause, in your words.")],
    fix: Annotated[str, typer.Option("--fix", metavar="TEXT", help="What fixed it.")],
    check: Annotated[str, typer.Option("--check", metavar="CHECK", help="The look that decided it.")] = "",
    source: Annotated[str, typer.Option("--source", metavar="URL", help="Where it is told.")] = "",
    year: Annotated[int, typer.Option("--year", help="In which it was.")] = 0,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="The site's folder; default: the setting.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """One past incident of your own, recalled for tickets that read like it. It confirms nothing."""
    settings = settings_of(config)
    from bot.cli.kb import add_command

    fields = {"title": title, "description": seen, "label": label, "root_cause": cause, "resolution": fix}
    entry = {**fields, "deciding_check": check, "source_url": source, "year": year}
    raise typer.Exit(call_or_exit(lambda: add_command.add_incident(settings, entry, to, as_json=json)))


@kb.command()
def build(
    exports: Annotated[
        list[Path],
        typer.Argument(metavar="EXPORT…", help="JSONL, JSON, CSV, a zip or folder of a Slack export, Markdown guides, our own YAML."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder of its own for what is built.")],
    mapped: Annotated[list[str] | None, typer.Option("--map", metavar="COLUMN=FIELD", help="What a column is; may be given again.")] = None,
    model: Annotated[
        bool, typer.Option("--model", help="Ask the model of the settings for each row; rules label what it declines.")
    ] = False,
    most_usd: Annotated[float, typer.Option("--most-usd", metavar="USD", min=0, help="What the model may cost in all.")] = 5.0,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Keep the model's answers; what it holds is not asked again.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="Answers of a recording alone; no model is asked.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Label past incidents of other systems, by rules or with a model: a folder to look through, which nothing uses yet. Goes on where it was
    killed."""
    settings = settings_of(config)
    from bot.cli.kb import build_command

    def run() -> int:
        asked = build_command.parse_model_options(most_usd, record, replay, model=model)
        return build_command.build_folder(settings, exports, out, mapped or (), as_json=json, asked=asked)

    raise typer.Exit(call_or_exit(run))


BuildFolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="What `kb build` wrote.")]


@kb.command()
def review(
    folder: BuildFolderArgument,
    again: Annotated[bool, typer.Option("--again", help="Ask about what was decided too.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Go through what was built: accept, edit, refuse or skip each. Every answer is kept at once; stop anywhere, the same command goes on.
    With --json nothing is asked: it says what is left."""
    settings = settings_of(config)
    from bot.cli.kb.review_command import review_folder
    from bot.cli.kb.terminal_dialog import open_terminal_dialog

    raise typer.Exit(call_or_exit(lambda: review_folder(settings, folder, open_terminal_dialog(), as_json=json, again=again)))


@kb.command()
def apply(
    folder: BuildFolderArgument,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="The site's folder; default: the setting.")] = None,
    no_bench: Annotated[bool, typer.Option("--no-bench", help="Replay past incidents alone; the benchmark takes minutes.")] = False,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Benchmark cases of each layer; default: the layer's own size.")] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, write nothing.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Take what was accepted into the site's folder. Past incidents and the benchmark are answered with and without it first; what answers
    them worse is refused, and which they are is said."""
    settings = settings_of(config)
    from bot.cli import bench
    from bot.cli.kb.apply_command import apply_build as take_over

    scored = None if no_bench or not bench.is_bench_installed() else lambda kb_dir: bench.score_cases(kb_dir, n)
    raise typer.Exit(call_or_exit(lambda: take_over(settings, folder, to, scored, as_json=json, dry=dry)))


@kb.command()
def rule(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG…", help="Logs of the failure that nothing explained.", exists=True, dir_okay=False)
    ],
    against: Annotated[
        list[Path] | None, typer.Option("--against", metavar="LOG", help="A log in which nothing was wrong; again for each.", exists=True)
    ] = None,
    kind: Annotated[str, typer.Option("--log", metavar="KIND", help="job or kernel.")] = "job",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write those that can be used, as a file of rules.")] = None,
    json: JsonOption = False,
) -> None:
    """Draft rules for lines that no reader knows, from a log that failed and logs that did not."""
    from bot.cli.kb.rule_command import draft_rules

    raise typer.Exit(call_or_exit(lambda: draft_rules(logs, against or [], kind, out, as_json=json)))


@kb.command(name="filter")
def draft_filter(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG…", help="Logs of such jobs.", exists=True, dir_okay=False)],
    family: Annotated[str, typer.Option("--family", metavar="TEXT", help="What the logs of these jobs hold, and others do not.")],
    name: Annotated[str, typer.Option("--id", metavar="ID", help="What it is called.")] = "regular_lines",
    against: Annotated[
        list[Path] | None, typer.Option("--against", metavar="LOG", help="A log of which nothing may be lost; again for each.", exists=True)
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it, as a file of filters.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Draft a filter for lines that logs of these jobs repeat and nobody needs: what two of three samples call regular, and no log wants."""
    settings = settings_of(config)
    from bot.cli.kb import filter_command

    raise typer.Exit(call_or_exit(lambda: filter_command.draft_filter(settings, logs, against or [], name, family, out, as_json=json)))


@kb.command(name="try")
def try_files(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Rules, filters, causes, checks or past incidents.", exists=True, dir_okay=False)
    ],
    keep: Annotated[bool, typer.Option("--keep", help="Put them into the site's folder where nothing is answered worse.")] = False,
    no_bench: Annotated[bool, typer.Option("--no-bench", help="Replay past incidents alone; the benchmark takes minutes.")] = False,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Benchmark cases of each layer; default: the layer's own size.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Answer past incidents and the benchmark with and without files of your own; what answers them worse is refused and never kept."""
    settings = settings_of(config)
    from bot.cli import bench
    from bot.cli.kb.try_command import try_site_files

    scored = None if no_bench or not bench.is_bench_installed() else lambda kb_dir: bench.score_cases(kb_dir, n)
    raise typer.Exit(call_or_exit(lambda: try_site_files(settings, files, scored, keep=keep, as_json=json)))


LessonIdArgument = Annotated[str, typer.Argument(metavar="LESSON", help="As `kb lessons` names it.")]


@kb.command()
def lessons(
    state: Annotated[str, typer.Option("--state", metavar="STATE", help="draft, accepted, refused, retired or folded.")] = "",
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """What closed incidents taught, with how far each is trusted."""
    settings = settings_of(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.print_lessons(settings, state, _get_today(), as_json=json))


@kb.command()
def mistakes(config: ConfigOption = None, json: JsonOption = False) -> None:
    """What was blamed wrongly more than once, as accepted lessons tell it, and whether that note helps."""
    settings = settings_of(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.print_mistakes(settings, as_json=json))


@kb.command()
def accept(lesson: LessonIdArgument, config: ConfigOption = None) -> None:
    """Take a draft, or a lesson that was retired, into use in every process."""
    settings = settings_of(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.accept_stored_lesson(settings, lesson, _get_today()))


@kb.command()
def retire(lesson: LessonIdArgument, config: ConfigOption = None) -> None:
    """Take a lesson out of use in every process; `kb accept` brings it back."""
    settings = settings_of(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.retire_stored_lesson(settings, lesson, _get_today()))


@kb.command()
def cause(
    lesson: LessonIdArgument,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Instead of standard output.")] = None,
    config: ConfigOption = None,
) -> None:
    """The draft of a new cause that a lesson proposes, as a file for the site's taxonomy/: complete it, then it is one of yours."""
    settings = settings_of(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.draft_cause(settings, lesson, out))


@kb.command()
def export(
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Instead of standard output.")] = None,
    customers: Annotated[bool, typer.Option("--customers", help="Those that concern customers too; their names go with them.")] = False,
    config: ConfigOption = None,
) -> None:
    """Accepted lessons as lines of JSON, for another site's `kb import`."""
    settings = settings_of(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.export_lessons(settings, out, customers=customers))


@kb.command("import")
def import_lessons(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `kb export` wrote.")],
    config: ConfigOption = None,
) -> None:
    """Lessons of another site as drafts: each is used once somebody here accepts it. Exit 1 where a row was passed over."""
    settings = settings_of(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.import_lessons(settings, file))


def _get_today() -> date:
    return datetime.now(UTC).date()
