"""Commands of the catalogues and of `kb`."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_runtime import ConfigOption, JsonOption, call_or_exit, load_settings_or_exit, run_async_command

PANEL = "What RackMedic knows"
commands = typer.Typer()


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic checks ibstat")
def checks(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Show this check in full: commands, facts, limits.")] = "",
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List all checks, including the site's own, or show one in full."""
    settings = load_settings_or_exit(config)
    from bot.app.site_files import load_all_checks
    from bot.cli.catalogue_tables import build_check_rows, print_catalogue

    call_or_exit(lambda: print_catalogue("Checks", build_check_rows(load_all_checks(settings)), json, name))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic remedies drain_node")
def remedies(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Show this remedy in full: command, preconditions, undo.")] = "",
    json: JsonOption = False,
) -> None:
    """List all remedies, or show one in full. None runs without approval."""
    from bot.cli.catalogue_tables import build_remedy_rows, print_catalogue

    call_or_exit(lambda: print_catalogue("Remedies", build_remedy_rows(), json, name))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic taxonomy GPU.BUS.Fallen_Off_Bus")
def taxonomy(
    name: Annotated[str, typer.Argument(metavar="[LABEL]", help="Show this cause in full: evidence, checks, remedies, sources.")] = "",
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List the root causes RackMedic can claim, or show one in full."""
    kb_dir = load_settings_or_exit(config).kb_dir
    from bot.app.site_files import load_site_taxonomy
    from bot.cli.catalogue_tables import build_taxonomy_rows, print_catalogue

    loaded_taxonomy = call_or_exit(lambda: load_site_taxonomy(kb_dir))
    descriptions = {leaf.label: leaf.description for leaf in loaded_taxonomy.leaves.values()}
    call_or_exit(lambda: print_catalogue("Causes", build_taxonomy_rows(loaded_taxonomy), json, name, descriptions))


@commands.command(rich_help_panel=PANEL, epilog="Example: rackmedic guides gpu_lost")
def guides(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Show this guide with its steps.")] = "",
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List troubleshooting guides, including the site's own, or show one with its steps.

    In a thread, `run guide NAME` runs one as a plan.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb import guide_command

    raise typer.Exit(call_or_exit(lambda: guide_command.print_guides(settings, name, as_json=json)))


kb = typer.Typer(
    help="Search, show, build and check knowledge of past incidents.",
    epilog="Example: rackmedic kb search 'NCCL timeout in allreduce'",
    no_args_is_help=True,
)
commands.add_typer(kb, name="kb", rich_help_panel=PANEL)
QueryTextArgument = Annotated[str, typer.Argument(metavar="TEXT", help="A report, or a few words.")]
EntryIdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="A label, or the id of an incident or page, from `kb search` or `kb list`.")
]
LimitOption = Annotated[int, typer.Option("--most", "-n", min=1, max=100, help="Maximum number of rows.")]


@kb.command(epilog="Example: rackmedic kb search 'NCCL timeout in allreduce'")
def search(
    text: QueryTextArgument,
    most: LimitOption = 5,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List past incidents and pages that are similar to a text, best first.

    Exit 1 when none is similar.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.search_knowledge(settings, text, most, as_json=json)))


@kb.command(epilog="Example: rackmedic kb show GPU.BUS.Fallen_Off_Bus")
def show(
    name: EntryIdArgument,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show one cause, incident or page in full, with its source."""
    settings = load_settings_or_exit(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.print_entry(settings, name, as_json=json)))


@kb.command("list", epilog="Example: rackmedic kb list --kind incident --label GPU.BUS")
def list_all(
    kind: Annotated[str, typer.Option("--kind", metavar="leaf|incident|page", help="Only this kind.")] = "",
    label: Annotated[str, typer.Option("--label", metavar="LABEL", help="Only this label or branch, such as GPU.BUS.")] = "",
    own: Annotated[bool, typer.Option("--own", help="Only the site's own.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List all causes, incidents and pages, one line each."""
    settings = load_settings_or_exit(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.print_entries(settings, kind, label, ours=own, as_json=json)))


@kb.command(epilog="Example: rackmedic kb stats")
def stats(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Count what is known by category and year, and list causes without a past incident."""
    settings = load_settings_or_exit(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.print_knowledge_stats(settings, as_json=json)))


@kb.command(epilog="Example: rackmedic kb lint /etc/rackmedic/kb")
def lint(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A folder with taxonomy/, checks/, rules/, incidents/, pages/, guides/ or sku/; default: the setting."),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Report every problem in a folder of knowledge, with file and line.

    Exit 1 when there is one.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb import knowledge

    raise typer.Exit(call_or_exit(lambda: knowledge.lint_folder(settings, folder, as_json=json)))


@kb.command(epilog="Example:\n\nrackmedic kb add --title T --seen TEXT --label LABEL --cause TEXT --fix TEXT")
def add(
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="How it showed, in one line.")],
    seen: Annotated[str, typer.Option("--seen", metavar="TEXT", help="What was seen, in the words of the report.")],
    label: Annotated[str, typer.Option("--label", metavar="LABEL", help="Label of the cause, from `rackmedic taxonomy`.")],
    cause: Annotated[str, typer.Option("--cause", metavar="TEXT", help="The root cause, in your words.")],
    fix: Annotated[str, typer.Option("--fix", metavar="TEXT", help="What fixed it.")],
    check: Annotated[str, typer.Option("--check", metavar="CHECK", help="The check that decided it.")] = "",
    source: Annotated[str, typer.Option("--source", metavar="URL", help="Address of the original report.")] = "",
    year: Annotated[int, typer.Option("--year", help="Year of the incident.")] = 0,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="The site's folder; default: the setting.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Add a past incident of your own, recalled for tickets that read like it.

    It confirms no cause.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb import add_command

    fields = {"title": title, "description": seen, "label": label, "root_cause": cause, "resolution": fix}
    entry = {**fields, "deciding_check": check, "source_url": source, "year": year}
    raise typer.Exit(call_or_exit(lambda: add_command.add_incident(settings, entry, to, as_json=json)))


@kb.command(epilog="Example: rackmedic kb build tickets.csv --out drafts")
def build(
    exports: Annotated[
        list[Path],
        typer.Argument(metavar="EXPORT…", help="JSONL, JSON, CSV, a zip or folder of a Slack export, Markdown guides, our own YAML."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the drafts.")],
    mapped: Annotated[list[str] | None, typer.Option("--map", metavar="COLUMN=FIELD", help="Meaning of a column; may be repeated.")] = None,
    model: Annotated[
        bool, typer.Option("--model", help="Ask the model of the settings for each row; rules label what it declines.")
    ] = False,
    most_usd: Annotated[float, typer.Option("--most-usd", metavar="USD", min=0, help="Limit on the cost of the model, in all.")] = 5.0,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Keep the model's answers in FILE; answers it has already are reused.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="Use only the answers in FILE; no model is asked.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Label incidents exported from other systems, by rules or with a model.

    Writes a folder to review; nothing uses it yet. After an interruption, run the same command again.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb import build_command

    def run() -> int:
        model_options = build_command.parse_model_options(most_usd, record, replay, model=model)
        return build_command.build_folder(settings, exports, out, mapped or (), as_json=json, asked=model_options)

    raise typer.Exit(call_or_exit(run))


BuildFolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `kb build` wrote.")]


@kb.command(epilog="Example: rackmedic kb review drafts")
def review(
    folder: BuildFolderArgument,
    again: Annotated[bool, typer.Option("--again", help="Ask about decided entries too.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Review what `kb build` wrote: accept, edit, refuse or skip each entry.

    Each answer is saved at once. Stop at any time; the same command continues.

    With --json it asks nothing and says what is left.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb.review_command import open_terminal_dialog, review_folder

    raise typer.Exit(call_or_exit(lambda: review_folder(settings, folder, open_terminal_dialog(), as_json=json, again=again)))


@kb.command(epilog="Example: rackmedic kb apply drafts --dry-run")
def apply(
    folder: BuildFolderArgument,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="The site's folder; default: the setting.")] = None,
    no_bench: Annotated[bool, typer.Option("--no-bench", help="Only replay past incidents; the benchmark takes minutes.")] = False,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Benchmark cases of each layer; default: the layer's own size.")] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Show what would happen and write nothing.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Copy accepted entries into the site's folder.

    First answers past incidents and the benchmark with and without them. Entries that make an answer worse are refused and named.
    """
    settings = load_settings_or_exit(config)
    from bot.cli import bench
    from bot.cli.kb.apply_command import apply_build

    scored = None if no_bench or not bench.is_bench_installed() else lambda kb_dir: bench.score_cases(kb_dir, n)
    raise typer.Exit(call_or_exit(lambda: apply_build(settings, folder, to, scored, as_json=json, dry=dry)))


@kb.command(epilog="Example: rackmedic kb rule failed.log --against good.log")
def rule(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG…", help="Logs of the unexplained failure.", exists=True, dir_okay=False)],
    against: Annotated[
        list[Path] | None, typer.Option("--against", metavar="LOG", help="A log in which nothing was wrong; may be repeated.", exists=True)
    ] = None,
    kind: Annotated[str, typer.Option("--log", metavar="KIND", help="job or kernel.")] = "job",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the usable rules to FILE.")] = None,
    json: JsonOption = False,
) -> None:
    """Draft rules for log lines that no reader knows.

    Compares a log of the failure with logs in which nothing was wrong.
    """
    from bot.cli.kb.rule_command import draft_rules

    raise typer.Exit(call_or_exit(lambda: draft_rules(logs, against or [], kind, out, as_json=json)))


@kb.command(name="filter", epilog="Example: rackmedic kb filter job1.log job2.log job3.log --family megatron")
def draft_filter(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG…", help="Logs of these jobs.", exists=True, dir_okay=False)],
    family: Annotated[str, typer.Option("--family", metavar="TEXT", help="Text that only logs of these jobs contain.")],
    name: Annotated[str, typer.Option("--id", metavar="ID", help="Id of the filter.")] = "regular_lines",
    against: Annotated[
        list[Path] | None, typer.Option("--against", metavar="LOG", help="A log that must lose no line; may be repeated.", exists=True)
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the filter to FILE.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Draft a filter for log lines that jobs of one kind always repeat.

    Drops lines that two of three samples call regular and that no log needs.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb import rule_command

    raise typer.Exit(call_or_exit(lambda: rule_command.draft_filter(settings, logs, against or [], name, family, out, as_json=json)))


@kb.command(name="try", epilog="Example: rackmedic kb try rules.yaml --no-bench")
def try_files(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Rules, filters, causes, checks or past incidents.", exists=True, dir_okay=False)
    ],
    keep: Annotated[bool, typer.Option("--keep", help="Copy them into the site's folder if no answer gets worse.")] = False,
    no_bench: Annotated[bool, typer.Option("--no-bench", help="Only replay past incidents; the benchmark takes minutes.")] = False,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Benchmark cases of each layer; default: the layer's own size.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Test rules, filters, causes, checks or incidents of your own before use.

    Answers past incidents and the benchmark with and without them. Files that make an answer worse are refused and never kept.
    """
    settings = load_settings_or_exit(config)
    from bot.cli import bench
    from bot.cli.kb.try_command import try_site_files

    scored = None if no_bench or not bench.is_bench_installed() else lambda kb_dir: bench.score_cases(kb_dir, n)
    raise typer.Exit(call_or_exit(lambda: try_site_files(settings, files, scored, keep=keep, as_json=json)))


LessonIdArgument = Annotated[str, typer.Argument(metavar="LESSON", help="Id from `kb lessons`.")]


@kb.command(epilog="Example: rackmedic kb lessons --state draft")
def lessons(
    state: Annotated[str, typer.Option("--state", metavar="STATE", help="draft, accepted, refused, retired or folded.")] = "",
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List the lessons from closed incidents, with how far each is trusted."""
    settings = load_settings_or_exit(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.print_lessons(settings, state, _get_today(), as_json=json))


@kb.command(epilog="Example: rackmedic kb mistakes")
def mistakes(config: ConfigOption = None, json: JsonOption = False) -> None:
    """List causes that were blamed wrongly more than once.

    The list comes from accepted lessons and says whether each note helps.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.print_mistakes(settings, as_json=json))


@kb.command(epilog="Example: rackmedic kb accept LESSON")
def accept(lesson: LessonIdArgument, config: ConfigOption = None) -> None:
    """Accept a draft, or restore a retired lesson, in every process."""
    settings = load_settings_or_exit(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.accept_stored_lesson(settings, lesson, _get_today()))


@kb.command(epilog="Example: rackmedic kb retire LESSON")
def retire(lesson: LessonIdArgument, config: ConfigOption = None) -> None:
    """Retire a lesson in every process; `kb accept` restores it."""
    settings = load_settings_or_exit(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.retire_stored_lesson(settings, lesson, _get_today()))


@kb.command(epilog="Example: rackmedic kb cause LESSON --out taxonomy/own.yaml")
def cause(
    lesson: LessonIdArgument,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="File to write; default: stdout.")] = None,
    config: ConfigOption = None,
) -> None:
    """Draft a new cause from a lesson, as a file for the site's taxonomy/.

    The cause is usable once you have completed the file.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.draft_cause(settings, lesson, out))


@kb.command(epilog="Example: rackmedic kb export --out lessons.jsonl")
def export(
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="File to write; default: stdout.")] = None,
    customers: Annotated[bool, typer.Option("--customers", help="Include lessons about customers, with the customers' names.")] = False,
    config: ConfigOption = None,
) -> None:
    """Export accepted lessons as JSON lines, for another site's `kb import`."""
    settings = load_settings_or_exit(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.export_lessons(settings, out, customers=customers))


@kb.command("import", epilog="Example: rackmedic kb import lessons.jsonl")
def import_lessons(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File that `kb export` wrote.")],
    config: ConfigOption = None,
) -> None:
    """Import lessons of another site as drafts.

    Each is used once a person here accepts it. Exit 1 when a row was skipped.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.kb import lesson_commands

    run_async_command(lambda: lesson_commands.import_lessons(settings, file))


def _get_today() -> date:
    return datetime.now(UTC).date()
