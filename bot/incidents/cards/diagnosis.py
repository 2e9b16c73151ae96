"""The report of a turn in five lines: what, where, how sure, next step, buttons."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import ButtonClick, encode_button_value, parse_button_click
from bot.cards.text import Line, Part, bold, code, italic, parse_backticks
from bot.incidents.cards import feedback, incident_menu, meant_buttons, report_rows, return_buttons
from bot.incidents.cards.questions import render_host_choice, render_question_blocks
from bot.incidents.cards.report_rows import NO_CAUSE_TITLES, CauseTitles
from bot.incidents.cards.shared_causes import render_shared_causes, render_thread_links
from bot.lessons import report_blocks
from graph.extraction import report_texts
from graph.extraction.report_texts import format_report_unknowns
from graph.report import HostFinding, Report
from graph.state import DiagnosisOutcome, Hypothesis, IncidentCosts
from kb.needle_search import split_lines
from tools.inventory.host_ranges import fold_host_names

HAND_OFF_ACTION_ID = "diagnosis.hand_off"
RECHECK_ACTION_ID = "diagnosis.recheck"
DETAILS_ACTION_ID = "diagnosis.details"
BUTTONS = {HAND_OFF_ACTION_ID: "hand_off", RECHECK_ACTION_ID: "recheck", DETAILS_ACTION_ID: "details"}
NO_LINKS: Mapping[str, Part] = {}
# Marks that differ in shape, not only in colour; and the default headline.
OUTCOME_HEADLINES: Mapping[DiagnosisOutcome, tuple[str, str]] = {
    "diagnosed": ("🔴", "Root cause found"),
    "no_fault": ("✅", "No fault found"),
    "abstained": ("❓", "No root cause found yet"),
    "handed_off": ("🎫", "Handed to a human"),
}
# Before the answer to a question about hosts.
FOUND_MARKS: Mapping[HostFinding, str] = {"fault": "🔴", "nothing": "✅", "odd": "⚠", "blind": "❓"}
OUTSIDE_IDEA_TEXT = "A model that read your report wrote this. Nothing on the machines shows it."
NOT_KEPT_TEXT = "The outputs behind this are not kept: the evidence store takes nothing now"
MAX_FILES_CHARS = 1500  # of all lines about files
SLURM_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
MAX_EXCLUDED_HOSTS = 32
JOB_LABEL_PREFIXES = ("USER.", "FRAMEWORK.")
KUBERNETES_COMMANDS = (("cordon_node",), ("uncordon_node",), ("evict_pods",))
# Evidence lines of a single cause, and of each of several; causes shown in full, and further ones by name; failed
# checks, log lines, ideas, and tasks for people.
MAX_SINGLE_CAUSE_LINES = 2
MAX_LINES_PER_CAUSE = 1
MAX_CAUSES = 2
MAX_NAMED_CAUSES = 3
MAX_UNOBSERVED = 3
MAX_LOG_LINES = 6
MAX_IDEAS = 2
MAX_MANUAL_TASKS = 2


def render_diagnosis(
    incident: str,
    report: Report,
    stats: IncidentCosts | None = None,
    links: Mapping[str, Part] = NO_LINKS,
    titles: CauseTitles = NO_CAUSE_TITLES,
    mark: str = "",
    mended: bool = False,
) -> Card:
    """Render the report, or only the answer of a turn that answered a question.

    `links`: threads that the reader may open. `mark` replaces the headline's mark. `mended`: the repair held, so no
    host is to be avoided.
    """
    if report.reply:
        return blocks.build_card(
            report.reply,
            [
                *_render_answer(report.reply),
                *render_thread_links(report, links),
                *_render_files(report),
                *return_buttons.render_return_buttons(incident, report.held),
                *meant_buttons.render_meant_buttons(incident, report),
                *_render_host_choice(incident, report),
                _render_small_print(incident, report, None),
            ],
        )
    icon, words = OUTCOME_HEADLINES[report.outcome]
    icon = mark or (FOUND_MARKS[report.about.found] if report.about else icon)
    own = [root_cause for root_cause in report.root_causes if root_cause.label not in report.also_seen]
    return blocks.build_card(
        f"{icon} {report.headline or words}",
        [
            blocks.header(f"{icon} {_format_headline(report, own, titles) or words}"),
            *([blocks.line_section(report.changed)] if report.changed else []),
            *[blocks.line_section(f"❓ {line}") for line in format_report_unknowns(report) if line not in report.headline],
            *_render_host_choice(incident, report),
            *_render_causes(own, titles, named=len(own) > 1),
            *_render_also_seen(report, titles),
            *render_shared_causes(report, links),
            *report_blocks.render_recalled_lessons(report, titles),
            *report_blocks.render_site_notes(report),
            *_render_files(report),
            *_render_logs(report, own),
            *_render_likely_cause(report, titles),
            *_render_peer_differences(report),
            *_render_old_events(report),
            *([blocks.section((bold("Perhaps:"), f" {report.outside}"), (italic(OUTSIDE_IDEA_TEXT),))] if report.outside else []),
            *report_blocks.render_ideas(report.ideas),
            *render_question_blocks(report.questions, report.suggestions[:MAX_IDEAS]),
            *report_blocks.render_guide(report),
            *_render_next_steps(report, own, titles, stats, mended=mended),
            *([blocks.line_section(f"🔁 {report.look_again}")] if report.look_again else []),
            _render_small_print(incident, report, stats),
            *([_render_buttons(incident, report)] if report.outcome != "handed_off" else []),
            *([feedback.render_feedback_buttons(incident, report.item)] if report.outcome in ("diagnosed", "no_fault") else []),
        ],
    )


def _format_headline(report: Report, own_causes: Sequence[Hypothesis], titles: CauseTitles) -> str:
    if not own_causes or report.about or (len(own_causes) == 1 and own_causes[0].label not in titles):
        return report.headline
    return titles[own_causes[0].label] if len(own_causes) == 1 else f"{len(own_causes)} causes found"


def parse_diagnosis_click(payload: Mapping[str, Any]) -> ButtonClick:
    return parse_button_click(payload, BUTTONS)


def _render_host_choice(incident: str, report: Report) -> list[Block]:
    return render_host_choice(incident, report.item, report.unknown_hosts)


def _render_answer(reply: str) -> list[Block]:
    """Render indented lines (output of a host) as code."""
    parts: list[Block] = []
    for indented, lines in groupby(split_lines(reply), key=lambda row: row.startswith("  ")):
        rows = list(lines)
        parts.append(blocks.code_section(row[2:] for row in rows) if indented else blocks.section(*(parse_backticks(row) for row in rows)))
    return parts


def _render_also_seen(report: Report, titles: CauseTitles) -> list[Block]:
    causes = [root_cause for root_cause in report.root_causes if root_cause.label in report.also_seen]
    rest = _render_cause_names(causes, titles)
    more_of_them = [blocks.section(*rest)] if rest else []
    return (
        [blocks.line_section(bold("Also seen")), *_render_causes(causes, titles, named=True), *more_of_them, *_render_recheck_hint(report)]
        if causes
        else []
    )


def _render_recheck_hint(report: Report) -> list[Block]:
    """Say how to get remediations for causes outside the question."""
    up = {action.label for action in report.actions}
    shared_targets = {(row.label, host) for row in report.shared for host in row.hosts or [""]}
    causes = [
        root_cause
        for root_cause in report.root_causes
        if root_cause.label in report.also_seen and root_cause.label not in up and (root_cause.label, "") not in shared_targets
    ]
    hosts = fold_host_names(host for cause in causes for host in cause.hosts if (cause.label, host) not in shared_targets)
    return (
        [blocks.line_section("No fix for it is waiting for approval. To ask for one, say ", code(f"recheck {hosts}"), ".")] if hosts else []
    )


def _render_causes(causes: Sequence[Hypothesis], titles: CauseTitles, *, named: bool) -> list[Block]:
    """Render the causes; `named`: with titles, as the headline does not have them."""
    if not named:
        return [
            blocks.section(report_rows.render_cause_place(h), *report_rows.render_evidence_summary(h, MAX_SINGLE_CAUSE_LINES))
            for h in causes
        ]
    return [
        blocks.section(
            (bold(report_rows.get_cause_title(h.label, titles)), " · ", *report_rows.render_cause_place(h)),
            *report_rows.render_evidence_summary(h, MAX_LINES_PER_CAUSE, sources=False),
        )
        for h in causes[:MAX_CAUSES]
    ]


def _render_cause_names(causes: Sequence[Hypothesis], titles: CauseTitles) -> list[Line]:
    rest = causes[MAX_CAUSES:]
    more: list[Line] = [
        (
            bold("And:"),
            f" {report_rows.get_cause_title(h.label, titles)} (",
            bold(report_rows.format_cause_place(h) or "not a host fault"),
            ")",
        )
        for h in rest[:MAX_NAMED_CAUSES]
    ]
    return [*more, (f"… and {len(rest) - MAX_NAMED_CAUSES} more causes in the details",)] if len(rest) > MAX_NAMED_CAUSES else more


def _render_unobserved(report: Report) -> list[Line]:
    """Render unobserved checks; give reasons only where no cause was found."""
    if report.outcome == "diagnosed":
        unobserved_summary = report_rows.render_unobserved_summary(report.could_not_look)
        return [(bold("Could not look:"), " ", *unobserved_summary)] if unobserved_summary else []
    lines = report_rows.render_unobserved(report.could_not_look, max_lines=MAX_UNOBSERVED)
    return [(bold("Could not look"),), *lines] if lines else []


def _render_files(report: Report) -> list[Block]:
    return [blocks.clipped_section(*report_rows.render_files(report.files), room=MAX_FILES_CHARS)] if report.files else []


def _render_logs(report: Report, own_causes: Sequence[Hypothesis]) -> list[Block]:
    lines = [] if own_causes else report_rows.format_logs(report.logs)
    rest = [f"… {len(lines) - MAX_LOG_LINES} more lines in the details"] if len(lines) > MAX_LOG_LINES else []
    return [blocks.section((bold("In the logs"),)), blocks.code_section([*lines[:MAX_LOG_LINES], *rest])] if lines else []


def _render_peer_differences(report: Report) -> list[Block]:
    return [blocks.section((bold("Differs from its peers"),)), blocks.code_section(report.differs)] if report.differs else []


def _render_old_events(report: Report) -> list[Block]:
    return [blocks.section((bold("Old, and not since"),)), blocks.code_section(report.old)] if report.old else []


def _render_likely_cause(report: Report, titles: CauseTitles) -> list[Block]:
    """Render the likely cause; where the headline names it, only who holds it likely and why it is not proven."""
    row = report.likely
    is_in_headline = row is not None and report_rows.get_cause_title(row.label, titles) in report.headline
    if row is None or (is_in_headline and row.by == "facts"):
        return []
    model_note = (
        f"a model that read all of this gives it {report_rows.format_confidence(row.p)}"
        if row.by == "reading"
        else f"the facts make it {report_rows.format_confidence(row.p)}"
    )
    reason_lines: list[Line] = [(italic("not proven:"), f" {row.because}")] if row.because else []
    if is_in_headline:
        return [blocks.section((f"{model_note[0].upper()}{model_note[1:]}.",), *reason_lines)]
    return [
        blocks.section((bold("Likely, not proven:"), f" {report_rows.get_cause_title(row.label, titles)} · {model_note}"), *reason_lines)
    ]


def _render_next_steps(
    report: Report, own_causes: Sequence[Hypothesis], titles: CauseTitles, stats: IncidentCosts | None, *, mended: bool
) -> list[Block]:
    """Render doubts, next step and tasks. A single cause's tasks are its next step."""
    tasks = [] if len(own_causes) == 1 and report.next_step else report.by_hand
    rest = len(tasks) - MAX_MANUAL_TASKS
    lines: list[Line] = [
        *(_render_cause_names(own_causes, titles) if len(own_causes) > 1 else []),
        *_render_unobserved(report),
        *(report_rows.render_rivals(report.ruled_out, titles) if len(own_causes) == 1 else []),
        *((bold("A second reading doubts it:"), f" {doubt}") for doubt in report.doubts),
        *([(f"{NOT_KEPT_TEXT} ({report.unkept}).",)] if report.unkept else []),
        *([(bold("Next:"), f" {report.next_step}")] if report.next_step else []),
        *([] if mended else _render_exclude_option(report, own_causes, stats)),
        *((bold("By hand:"), f" {task}") for task in tasks[:MAX_MANUAL_TASKS]),
        *([(f"… and {rest} more in the details",)] if rest > 0 else []),
    ]
    return [blocks.section(*lines)] if lines else []


def _render_exclude_option(report: Report, own_causes: Sequence[Hypothesis], stats: IncidentCosts | None) -> list[Line]:
    """Return the Slurm option that avoids the faulty hosts.

    Empty under Kubernetes, for a fault of the job itself, or where no examined host would be left.
    """
    hosts = sorted(
        {
            host
            for cause in own_causes
            if not cause.label.startswith(JOB_LABEL_PREFIXES)
            for host in cause.hosts
            if SLURM_NAME_PATTERN.fullmatch(host)
        }
    )
    if stats is not None and 1 < len(hosts) >= stats.hosts:
        return []
    kubernetes = any(action.argv[:1] in KUBERNETES_COMMANDS for action in report.actions)
    if report.outcome != "diagnosed" or not hosts or kubernetes or len(hosts) > MAX_EXCLUDED_HOSTS:
        return []
    words = f"Restart the job without {'it' if len(hosts) == 1 else 'them'} (Slurm):"
    return [(bold(words), " ", code(f"--exclude={','.join(hosts)}"))]


def _render_small_print(incident: str, report: Report, stats: IncidentCosts | None) -> Block:
    coverage = report_texts.format_hosts_and_makespan(stats) if stats else ""
    alone = "without a model" if report.without_model and not report.reply else ""
    return blocks.context((italic(" · ".join(part for part in (incident, coverage, alone) if part)),))


def _render_buttons(incident: str, report: Report) -> Block:
    value = encode_button_value(incident, report.item)
    sure = blocks.confirm("Hand off?", "This thread becomes a ticket with everything found so far. I stop looking by myself.", "Hand off")
    return blocks.actions(
        blocks.button("Details", DETAILS_ACTION_ID, value),
        blocks.button("Hand off", HAND_OFF_ACTION_ID, value, ask=sure),
        incident_menu.render_menu(incident),
    )
