"""The status message of an incident: progress, then the report below its status."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import Line, Part, bold, code
from bot.incidents.cards import diagnosis, progress, report_rows
from bot.incidents.cards.incident_status import STATUS_SIGNS, IncidentStatus
from bot.incidents.cards.progress import ProgressCard
from bot.incidents.cards.report_rows import CauseTitles
from graph.report import Report
from graph.state import IncidentCosts

MAX_SUMMARY_CHARS = 500  # of the short message that a look is over


@dataclass(frozen=True, slots=True)
class IncidentCardView:
    """`busy` is a running turn; without a report nothing was found yet."""

    incident: str
    report: Report | None = None
    stats: IncidentCosts | None = None
    standing: IncidentStatus | None = None
    busy: ProgressCard | None = None
    links: Mapping[str, Part] = field(default_factory=dict)  # incident → thread in which it works on a shared cause
    changed: str = ""  # what was likely while some hosts were silent, where the result differs
    titles: CauseTitles = field(default_factory=dict)  # cause label → title

    @property
    def mark(self) -> str:
        """The headline's mark once a fault is mended or handed off; else empty."""
        over = self.report is not None and self.report.outcome == "diagnosed" and self.standing is not None and not self.busy
        return STATUS_SIGNS[self.standing.sign].mark if over and self.standing and self.standing.sign in ("well", "ticket") else ""


def render_incident_card(living: IncidentCardView) -> Card:
    if living.report is None:
        return progress.render_progress(living.busy) if living.busy else _render_without_report(living)
    report = living.report.model_copy(update={"next_step": ""}) if _has_newer_next_step(living.standing) else living.report
    if living.standing and living.standing.closed and not living.busy:
        report = _remove_open_guide(report)
    mended = living.standing is not None and living.standing.mended and not living.busy
    diagnosis_blocks = diagnosis.render_diagnosis(
        living.incident, report, living.stats, living.links, living.titles, living.mark, mended=mended
    )
    head = [progress.render_progress_steps(living.busy)] if living.busy else _render_status(living.standing)
    first = 1 if diagnosis_blocks.blocks[0]["type"] == "header" else 0
    first_line = f" {living.standing.first_line}" if living.standing else ""
    back = [] if living.report.reply else report_rows.render_return_buttons(living.incident, living.report.held)
    return blocks.build_card(
        f"{diagnosis_blocks.text}{first_line}",
        [*diagnosis_blocks.blocks[:first], *head, *_render_changed(living), *back, *diagnosis_blocks.blocks[first:]],
    )


def render_cured_message(standing: IncidentStatus, what: str) -> Card:
    """Render a repair's last message: it holds."""
    return blocks.build_card(
        f"{standing.first_line} {what}", [blocks.section((bold(standing.first_line), *_render_next_step(standing)), (what,))]
    )


def render_look_finished(report: Report) -> Card:
    """Render a short message that a long look is over, as edits do not notify."""
    icon, words = diagnosis.OUTCOME_HEADLINES[report.outcome]
    head = f"{icon} {report.headline or words}"
    return blocks.build_card(
        head, [blocks.clipped_section((bold(head),), ("Details are on my first message in this thread.",), room=MAX_SUMMARY_CHARS)]
    )


def _render_without_report(living: IncidentCardView) -> Card:
    if living.standing is None:
        return _render_unfinished(living.incident)
    return blocks.build_card(
        living.standing.first_line, [*_render_status(living.standing), blocks.context((f"incident {living.incident}",))]
    )


def _render_unfinished(incident: str) -> Card:
    head = "🟡 I stopped in the middle of looking"
    rest: Line = (". What was noted is kept. If nothing follows here in a minute, reply ", code("recheck"), ".")
    return blocks.build_card(head, [blocks.line_section(bold(head), *rest), blocks.context((f"incident {incident}",))])


def _has_newer_next_step(standing: IncidentStatus | None) -> bool:
    """Return whether the status supersedes the report's next step."""
    return standing is not None and (bool(standing.then) or standing.sign in ("well", "ticket"))


def _remove_open_guide(report: Report) -> Report:
    """Drop an unfinished guide from a closed incident's report."""
    run = report.guide
    return report if run is None or (run.called and not run.is_open) else report.model_copy(update={"guide": None})


def _render_changed(living: IncidentCardView) -> list[Block]:
    return [blocks.line_section(bold("Changed:"), f" while I waited it looked like {living.changed}.")] if living.changed else []


def _render_status(standing: IncidentStatus | None) -> list[Block]:
    if standing is None:
        return []
    if standing.has_begun:
        return [blocks.plan(f"{STATUS_SIGNS[standing.sign].mark} {standing.step}", standing.tasks)]
    lines: list[Line] = [(f"{STATUS_SIGNS[standing.sign].mark} ", bold(standing.lines[0]), *_render_next_step(standing))]
    return [blocks.section(*lines, *((f"· {line}",) for line in standing.lines[1:]))]


def _render_next_step(standing: IncidentStatus) -> Line:
    return (" Then: ", f"{standing.then}.") if standing.then else ()
