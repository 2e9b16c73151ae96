"""The status message of an incident: progress, then the report below its status."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import Line, Part, bold, code
from bot.incidents.cards import diagnosis, progress, return_buttons
from bot.incidents.cards.incident_status import STATUS_SIGNS, IncidentStatus
from bot.incidents.cards.progress import ProgressCard
from bot.incidents.cards.report_rows import CauseTitles
from graph.report import Report
from graph.state import IncidentCosts

MAX_SUMMARY_CHARS = 500  # of the short message that checks ended


@dataclass(frozen=True, slots=True)
class IncidentCardView:
    """`busy` is a running turn; without a report nothing was found yet."""

    incident: str
    report: Report | None = None
    stats: IncidentCosts | None = None
    status: IncidentStatus | None = None
    busy: ProgressCard | None = None
    links: Mapping[str, Part] = field(default_factory=dict)  # incident → thread in which it works on a shared cause
    changed: str = ""  # what was likely while some hosts were silent, where the result differs
    titles: CauseTitles = field(default_factory=dict)  # cause label → title

    @property
    def mark(self) -> str:
        """The headline's mark once a fault is mended or handed off; else empty."""
        over = self.report is not None and self.report.outcome == "diagnosed" and self.status is not None and not self.busy
        return STATUS_SIGNS[self.status.sign].mark if over and self.status and self.status.sign in ("well", "ticket") else ""


def render_incident_card(view: IncidentCardView) -> Card:
    if view.report is None:
        return progress.render_progress(view.busy) if view.busy else _render_without_report(view)
    report = view.report.model_copy(update={"next_step": ""}) if _has_newer_next_step(view.status) else view.report
    if view.status and view.status.closed and not view.busy:
        report = _remove_open_guide(report)
    mended = view.status is not None and view.status.mended and not view.busy
    diagnosis_card = diagnosis.render_diagnosis(view.incident, report, view.stats, view.links, view.titles, view.mark, mended=mended)
    head = [progress.render_progress_steps(view.busy)] if view.busy else _render_status(view.status)
    first = 1 if diagnosis_card.blocks[0]["type"] == "header" else 0
    first_line = f" {view.status.first_line}" if view.status else ""
    back = [] if view.report.reply else return_buttons.render_return_buttons(view.incident, view.report.held)
    return blocks.build_card(
        f"{diagnosis_card.text}{first_line}",
        [*diagnosis_card.blocks[:first], *head, *_render_changed(view), *back, *diagnosis_card.blocks[first:]],
    )


def render_cured_message(status: IncidentStatus, what: str) -> Card:
    """Render a repair's last message: it holds."""
    return blocks.build_card(
        f"{status.first_line} {what}", [blocks.section((bold(status.first_line), *_render_next_step(status)), (what,))]
    )


def render_look_finished(report: Report) -> Card:
    """Render a short message that long checks ended, as edits do not notify."""
    icon, words = diagnosis.OUTCOME_HEADLINES[report.outcome]
    head = f"{icon} {report.headline or words}"
    return blocks.build_card(
        head, [blocks.clipped_section((bold(head),), ("Details are on my first message in this thread.",), room=MAX_SUMMARY_CHARS)]
    )


def _render_without_report(view: IncidentCardView) -> Card:
    if view.status is None:
        return _render_unfinished(view.incident)
    return blocks.build_card(view.status.first_line, [*_render_status(view.status), blocks.context((f"incident {view.incident}",))])


def _render_unfinished(incident: str) -> Card:
    head = "🟡 I stopped in the middle of looking"
    rest: Line = (". What was noted is kept. If nothing follows here in a minute, reply ", code("recheck"), ".")
    return blocks.build_card(head, [blocks.line_section(bold(head), *rest), blocks.context((f"incident {incident}",))])


def _has_newer_next_step(status: IncidentStatus | None) -> bool:
    """Return whether the status supersedes the report's next step."""
    return status is not None and (bool(status.then) or status.sign in ("well", "ticket"))


def _remove_open_guide(report: Report) -> Report:
    """Drop an unfinished guide from a closed incident's report."""
    run = report.guide
    return report if run is None or (run.called and not run.is_open) else report.model_copy(update={"guide": None})


def _render_changed(view: IncidentCardView) -> list[Block]:
    return [blocks.line_section(bold("Changed:"), f" while I waited it looked like {view.changed}.")] if view.changed else []


def _render_status(status: IncidentStatus | None) -> list[Block]:
    if status is None:
        return []
    if status.has_begun:
        return [blocks.plan(f"{STATUS_SIGNS[status.sign].mark} {status.step}", status.tasks)]
    lines: list[Line] = [(f"{STATUS_SIGNS[status.sign].mark} ", bold(status.lines[0]), *_render_next_step(status))]
    return [blocks.section(*lines, *((f"· {line}",) for line in status.lines[1:]))]


def _render_next_step(status: IncidentStatus) -> Line:
    return (" Then: ", f"{status.then}.") if status.then else ()
