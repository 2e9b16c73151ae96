"""The living message of an incident: while it is looked into the progress, then what was found, and above that where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.incidents import diagnosis, held, progress
from bot.cards.incidents.progress import ProgressCard
from bot.cards.incidents.rows import Titles
from bot.cards.incidents.standing import SIGNS, IncidentStanding
from bot.cards.text import Line, Part, bold, code
from graph.report import Report
from graph.state import Stats

TOLD = 500
"""How long the short message that a look is over may be."""


@dataclass(frozen=True, slots=True)
class Living:
    """What the message shows. Without a report nothing was found yet; `busy` is a turn under way."""

    incident: str
    report: Report | None = None
    stats: Stats | None = None
    standing: IncidentStanding | None = None
    busy: ProgressCard | None = None
    links: Mapping[str, Part] = field(default_factory=dict)
    """Threads in which its causes are worked on, by incident."""
    changed: str = ""
    """What was likely while some hosts were silent, and is not what was found."""
    titles: Titles = field(default_factory=dict)
    """What causes are called."""

    @property
    def mark(self) -> str:
        """What the headline of a fault begins with once it is mended, or with a person; empty while it begins as it was found."""
        over = self.report is not None and self.report.outcome == "diagnosed" and self.standing is not None and not self.busy
        return SIGNS[self.standing.sign].mark if over and self.standing and self.standing.sign in ("well", "ticket") else ""


def render(living: Living) -> Card:
    """The message as it is now."""
    if living.report is None:
        return progress.render(living.busy) if living.busy else _without_a_look(living)
    report = living.report.model_copy(update={"next_step": ""}) if _says_next(living.standing) else living.report
    if living.standing and living.standing.closed and not living.busy:
        report = _without_open_guide(report)
    mended = living.standing is not None and living.standing.mended and not living.busy
    found = diagnosis.render(living.incident, report, living.stats, living.links, living.titles, living.mark, mended=mended)
    head = [progress.again(living.busy)] if living.busy else _stands(living.standing)
    first = 1 if found.blocks[0]["type"] == "header" else 0
    said = f" {living.standing.line}" if living.standing else ""
    back = [] if living.report.reply else held.rows(living.incident, living.report.held)
    return blocks.card(f"{found.text}{said}", [*found.blocks[:first], *head, *_changed(living), *back, *found.blocks[first:]])


def ended(standing: IncidentStanding, what: str) -> Card:
    """The last message of a fix: that it holds, and what was mended."""
    return blocks.card(f"{standing.line} {what}", [blocks.section((bold(standing.line), *_then(standing)), (what,))])


def told(report: Report) -> Card:
    """A short message that a long look is over, for an edit of the message above tells nobody."""
    icon, words = diagnosis.HEADLINES[report.outcome]
    head = f"{icon} {report.headline or words}"
    return blocks.card(head, [blocks.short((bold(head),), ("All of it is on my first message in this thread.",), room=TOLD)])


def _without_a_look(living: Living) -> Card:
    """Where an incident stands at which nobody has looked yet: with people, or left in the middle."""
    if living.standing is None:
        return _unfinished(living.incident)
    return blocks.card(living.standing.line, [*_stands(living.standing), blocks.context((f"incident {living.incident}",))])


def _unfinished(incident: str) -> Card:
    head = "🟡 I stopped in the middle of looking"
    rest: Line = (". What was noted is kept. If nothing follows here in a minute, reply ", code("recheck"), ".")
    return blocks.card(head, [blocks.say(bold(head), *rest), blocks.context((f"incident {incident}",))])


def _says_next(standing: IncidentStanding | None) -> bool:
    """What was to be done by the report is under way, done, or with a person: where it stands says more than that."""
    return standing is not None and (bool(standing.then) or standing.sign in ("well", "ticket"))


def _without_open_guide(report: Report) -> Report:
    """The report of a closed incident: a guide that was not followed to its end asks for nothing any more."""
    run = report.guide
    return report if run is None or (run.called and not run.open) else report.model_copy(update={"guide": None})


def _changed(living: Living) -> list[Block]:
    return [blocks.say(bold("Changed:"), f" while I waited it looked like {living.changed}.")] if living.changed else []


def _stands(standing: IncidentStanding | None) -> list[Block]:
    if standing is None:
        return []
    if standing.begun:
        return [blocks.plan(f"{SIGNS[standing.sign].mark} {standing.step}", standing.tasks)]
    lines: list[Line] = [(f"{SIGNS[standing.sign].mark} ", bold(standing.lines[0]), *_then(standing))]
    return [blocks.section(*lines, *((f"· {line}",) for line in standing.lines[1:]))]


def _then(standing: IncidentStanding) -> Line:
    return (" Then: ", f"{standing.then}.") if standing.then else ()
