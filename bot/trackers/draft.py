"""What leaves for a tracker, made of a stored incident: bounded, without secrets, and without a customer's words or name. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from bot.cards.incidents import rows as shown
from bot.cards.incidents.handoff import Handoff, Moment, handoff, timeline
from bot.cards.incidents.rows import Titles
from graph.exchange.ordinary import ORDINARY
from graph.rows import IncidentRows
from graph.state import Hypothesis, Incident, Origin
from kb.names import Names, fold, parts_of
from kb.redact import cleaned_start, visible
from kb.shapes import StrictModel

MOST_TEXT, MOST_LINE, MOST_LINES = 6000, 240, 12
"""Characters of a draft, of a line of it, and lines of a part: the form shows all of it."""
CAUSES, EVIDENCE, RIVALS = 3, 4, 6
CUSTOMER, DIGITS = "a customer", "0123456789"


class DraftSection(StrictModel):
    """A part under its heading. `printed`: lines as machines or people wrote them."""

    head: str
    lines: tuple[str, ...]
    printed: bool = False


class TrackerDraft(StrictModel):
    """All that is told of an incident, whichever tracker it goes to. Which fields it takes there is the tracker's."""

    incident: str
    title: str
    sections: tuple[DraftSection, ...]
    thread: str = ""
    """Where it is talked about in Slack."""
    owner: str = ""
    """Who should act: customer, provider or vendor."""
    hosts: tuple[str, ...] = ()

    def stored(self) -> bytes:
        """As it is kept until it has arrived."""
        return self.model_dump_json().encode()


def draft_of(incident: str, state: Incident, origin: Origin, titles: Titles, customers: Collection[str]) -> TrackerDraft:
    """The draft of a stored incident. `customers`: names of tenants, none of which leaves."""
    theirs = bool(origin.tenant or origin.customer or origin.ticket)
    rows = IncidentRows({**state, "id": incident, "said": []} if theirs else {**state, "id": incident})
    whole = handoff(rows.stored)
    told = _Told(customers, whole.hosts)
    parts = _bounded(told.section(head, lines, printed) for head, lines, printed in _parts(whole, timeline(rows), titles, theirs))
    return TrackerDraft(
        incident=incident,
        title=told.line(whole.headline),
        sections=tuple(parts),
        thread=thread_url(origin),
        owner=told.line(whole.ticket.owner),
        hosts=tuple(told.line(name) for name in whole.hosts[:64]),
    )


def retitled(draft: TrackerDraft, title: str, customers: Collection[str]) -> TrackerDraft:
    """With the title that a person gave it; what is typed may hold a secret or a customer's name too."""
    return draft.model_copy(update={"title": _Told(customers, draft.hosts).line(title)})


def one_line(text: str, most: int = MOST_LINE) -> str:
    """A line that may leave."""
    line = " ".join(visible(cleaned_start(text, 2 * MOST_LINE)).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def without_customers(text: str, customers: Collection[str]) -> str:
    """A line that may leave, with no name of a tenant."""
    return _Told(customers).line(text)


def thread_url(origin: Origin) -> str:
    """The thread that the incident lives in; empty where it is in none."""
    at = (origin.team, origin.channel, origin.thread_ts)
    if origin.kind != "slack" or not all(re.fullmatch(r"[A-Z0-9.]{1,40}", word) for word in at):
        return ""
    return f"https://app.slack.com/client/{origin.team}/{origin.channel}/thread/{origin.channel}-{origin.thread_ts}"


class _Told:
    """Words on their way out: no secret, no name of a customer, nothing that hides, no line too long."""

    def __init__(self, customers: Collection[str], hosts: Collection[str] = ()) -> None:
        self._names = Names(customers, ORDINARY)
        self._pattern = self._names.pattern()
        known = _either(self._host(name.lower()) for name in hosts)
        self._hosts = re.compile(rf"(?<!\w){known}") if known else None

    def _host(self, name: str) -> str:
        """The name, and its like with other numbers; not where a tenant's name and a number are all of it."""
        stem = name.rstrip(DIGITS)
        if stem == name or parts_of(stem) in {parts_of(one) for one in self._names.known}:
            return rf"{re.escape(name)}(?!\w)"
        return f"{re.escape(stem)}(?=[0-9[])"

    def line(self, text: str) -> str:
        """Their names are found within words as well (`acme-train`, `acmetrain`), but for those of the hosts in question."""
        return one_line(self._without_names(cleaned_start(text, 8 * MOST_LINE)))

    def _without_names(self, text: str) -> str:
        if self._pattern is None:
            return text
        said = fold(text)
        hosts = [found.span() for found in self._hosts.finditer(said.text)] if self._hosts else []
        told, behind = list[str](), 0
        for start, end in self._names.places(said, self._pattern):
            if any(first <= start and end <= last for first, last in hosts):
                continue
            at, until = said.place(start, end)
            told += [text[behind:at], "-" * text[max(0, at - 1) : at].isalnum(), CUSTOMER, "-" * text[until : until + 1].isalnum()]
            behind = until
        return "".join((*told, text[behind:]))

    def section(self, head: str, lines: Sequence[str], printed: bool) -> DraftSection:
        rest = len(lines) - MOST_LINES
        kept = [self.line(text) for text in lines[:MOST_LINES]]
        more = [f"… and {rest} more"] if rest > 0 else []
        return DraftSection(head=head, lines=tuple(line for line in (*kept, *more) if line), printed=printed)


def _either(patterns: Iterable[str]) -> str:
    """A pattern of all of them, the longest first; empty for none."""
    known = sorted(set(filter(None, patterns)), key=lambda one: (-len(one), one))
    return f"(?:{'|'.join(known)})" if known else ""


def _parts(whole: Handoff, when: Sequence[Moment], titles: Titles, theirs: bool) -> Iterator[tuple[str, list[str], bool]]:
    """(heading, lines, whether they are quoted), what matters most first."""
    yield (
        "What",
        [whole.headline, f"Hosts: {shown.hosts(whole.hosts) or 'none named'}", f"For: {whole.ticket.owner or 'nobody known'}"],
        False,
    )
    yield (
        "Reported",
        ["by a customer; their words stay in the thread"] if theirs else [whole.reported] if whole.reported else [],
        not theirs,
    )
    for cause in [row for row in whole.hypotheses if row.verdict == "confirmed"][:CAUSES]:
        yield f"Root cause: {shown.title(cause.label, titles)}", _shows(cause), True
    yield "Not decided", _named(whole, ("inconclusive", "open"), titles), False
    yield "Ruled out", _named(whole, ("rejected",), titles), False
    yield "Could not look", [f"{row.host} {row.check}: {row.why}" for row in whole.could_not_look], False
    yield "Out of service on our account", [f"{row.host} {row.said()}" for row in whole.held], False
    yield "Timeline (UTC)", [f"{moment.at:%Y-%m-%d %H:%M:%S}  {moment.what}" for moment in when], True


def _shows(cause: Hypothesis) -> list[str]:
    where = f"{shown.where(cause) or 'no machine at fault'}, {shown.percent(cause.confidence)} sure, {cause.label}"
    return [
        where,
        *([cause.because] if cause.because else []),
        *(f"{row.host} {row.check}: {row.line}" for row in cause.evidence[:EVIDENCE]),
    ]


def _named(whole: Handoff, verdicts: Sequence[str], titles: Titles) -> list[str]:
    rows = [row for row in whole.hypotheses if row.verdict in verdicts]
    rest = [f"… and {len(rows) - RIVALS} more"] if len(rows) > RIVALS else []
    return [*(shown.title(row.label, titles) for row in rows[:RIVALS]), *rest]


def _bounded(sections: Iterable[DraftSection]) -> Iterator[DraftSection]:
    """Whole sections as long as they fit; what does not is said."""
    room, left_out = MOST_TEXT, 0
    for section in (one for one in sections if one.lines):
        room -= len(section.head) + sum(_shown_size(line) for line in section.lines)
        if room < 0:
            left_out += 1
            continue
        yield section
    if left_out:
        yield DraftSection(head="More", lines=(f"{left_out} more parts are in the thread",))


def _shown_size(line: str) -> int:
    """As the form shows it, escaped and under its heading."""
    return len(line) + 4 * sum(line.count(char) for char in "&<>") + 2 * line.count("://") + 3


def plain_text(draft: TrackerDraft, marker: str) -> str:
    """For people who read it as it stands."""
    parts = ["\n".join([section.head.upper(), *(f"  {line}" for line in section.lines)]) for section in draft.sections]
    return "\n\n".join([*parts, _foot(draft, marker)])


def markdown(draft: TrackerDraft, marker: str) -> str:
    """For GitHub: every line of others stands in a fence, where nothing mentions anybody and nothing is a link."""
    parts = [f"### {_plain_head(section.head)}\n\n{_fenced(section.lines)}" for section in draft.sections]
    return "\n\n".join([*parts, f"{_foot(draft, marker)}\n<!-- {marker} -->"])


def adf(draft: TrackerDraft, marker: str) -> dict[str, object]:
    """For Jira: Atlassian's document, in which text is text whatever stands in it."""
    blocks: list[dict[str, object]] = []
    for section in draft.sections:
        blocks.append({"type": "heading", "attrs": {"level": 3}, "content": [_text(section.head)]})
        if section.printed:
            blocks.append({"type": "codeBlock", "content": [_text("\n".join(section.lines))]})
        else:
            blocks += [{"type": "paragraph", "content": [_text(line)]} for line in section.lines]
    return {
        "type": "doc",
        "version": 1,
        "content": [*blocks, *({"type": "paragraph", "content": [_text(line)]} for line in _feet(draft, marker))],
    }


def paragraph(words: str) -> dict[str, object]:
    """A document of Atlassian's that is one paragraph."""
    return {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": [_text(words)]}]}


def as_data(draft: TrackerDraft, marker: str) -> Mapping[str, object]:
    """For programs."""
    return {**draft.model_dump(mode="json"), "marker": marker}


def _text(words: str) -> dict[str, object]:
    """Atlassian refuses an empty text."""
    return {"type": "text", "text": words or "–"}


def _plain_head(head: str) -> str:
    return re.sub(r"[^\w ().,:/-]", " ", head)


def _fenced(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def _foot(draft: TrackerDraft, marker: str) -> str:
    return "\n".join(_feet(draft, marker))


def _feet(draft: TrackerDraft, marker: str) -> list[str]:
    return [f"Sent by RackMedic after a person's click: incident {draft.incident} ({marker})", *([draft.thread] if draft.thread else [])]
