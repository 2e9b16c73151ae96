"""What a tracker is sent: bounded, redacted, without a tenant's words or name."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from bot.incidents.cards import report_rows
from bot.incidents.cards.handoff_content import Handoff, TimelineEntry, build_handoff, build_timeline
from bot.incidents.cards.report_rows import CauseTitles
from graph.incident_view import IncidentView
from graph.state import Hypothesis, IncidentState, Origin
from graph.ticket_export.common_words import COMMON_WORDS
from kb.names import NameMatcher, fold_text, split_name
from kb.redact import redact_start, show_invisible
from kb.schema import StrictModel

# limits of a draft and of a line; lines per section. The form shows all of it.
MAX_TEXT_CHARS = 6000
MAX_LINE_CHARS = 240
MAX_SECTION_LINES = 12
MAX_CAUSES = 3
MAX_EVIDENCE_LINES = 4
MAX_RIVALS = 6
TENANT_PLACEHOLDER = "a customer"
DIGITS = "0123456789"


class DraftSection(StrictModel):
    """A part under its heading. `printed`: lines as machines or people wrote them."""

    head: str
    lines: tuple[str, ...]
    printed: bool = False


class TrackerDraft(StrictModel):
    """The ticket that is sent for an incident. It is the same for every tracker, which maps it to its own fields."""

    incident: str
    title: str
    sections: tuple[DraftSection, ...]
    thread: str = ""  # URL of the Slack thread
    owner: str = ""  # who should act: customer, provider or vendor
    hosts: tuple[str, ...] = ()

    def to_stored_bytes(self) -> bytes:
        return self.model_dump_json().encode()


def build_draft(incident: str, state: IncidentState, origin: Origin, titles: CauseTitles, customers: Collection[str]) -> TrackerDraft:
    """Build a draft. `customers`: tenant names to remove."""
    is_tenant_incident = bool(origin.tenant or origin.customer or origin.ticket)
    rows = IncidentView({**state, "id": incident, "said": []} if is_tenant_incident else {**state, "id": incident})
    handoff = build_handoff(rows.stored)
    outbound = _OutboundText(customers, handoff.hosts)
    parts = _select_fitting_sections(
        outbound.build_section(head, lines, printed)
        for head, lines, printed in _list_parts(handoff, build_timeline(rows), titles, is_tenant_incident)
    )
    return TrackerDraft(
        incident=incident,
        title=outbound.clean_line(handoff.headline),
        sections=tuple(parts),
        thread=build_thread_url(origin),
        owner=outbound.clean_line(handoff.ticket.owner),
        hosts=tuple(outbound.clean_line(name) for name in handoff.hosts[:64]),
    )


def replace_title(draft: TrackerDraft, title: str, customers: Collection[str]) -> TrackerDraft:
    """Replace the title by a typed one, cleaned."""
    return draft.model_copy(update={"title": _OutboundText(customers, draft.hosts).clean_line(title)})


def format_outbound_line(text: str, max_chars: int = MAX_LINE_CHARS) -> str:
    line = " ".join(show_invisible(redact_start(text, 2 * MAX_LINE_CHARS)).split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def redact_tenants(text: str, customers: Collection[str]) -> str:
    return _OutboundText(customers).clean_line(text)


def build_thread_url(origin: Origin) -> str:
    """Return the thread's URL, or an empty string."""
    at = (origin.team, origin.channel, origin.thread_ts)
    if origin.kind != "slack" or not all(re.fullmatch(r"[A-Z0-9.]{1,40}", word) for word in at):
        return ""
    return f"https://app.slack.com/client/{origin.team}/{origin.channel}/thread/{origin.channel}-{origin.thread_ts}"


class _OutboundText:
    """Removes secrets, tenant names and hidden characters; bounds lines."""

    def __init__(self, customers: Collection[str], hosts: Collection[str] = ()) -> None:
        self._names = NameMatcher(customers, COMMON_WORDS)
        self._pattern = self._names.build_pattern()
        alternation = _build_alternation(self._build_host_pattern(name.lower()) for name in hosts)
        self._hosts = re.compile(rf"(?<!\w){alternation}") if alternation else None

    def _build_host_pattern(self, name: str) -> str:
        """Match the name with any number, unless it is a tenant's name and a number."""
        stem = name.rstrip(DIGITS)
        if stem == name or split_name(stem) in {split_name(one) for one in self._names.names}:
            return rf"{re.escape(name)}(?!\w)"
        return f"{re.escape(stem)}(?=[0-9[])"

    def clean_line(self, text: str) -> str:
        """Remove tenant names, also inside words (`acmetrain`), except in affected hosts' names."""
        return format_outbound_line(self._redact_tenant_names(redact_start(text, 8 * MAX_LINE_CHARS)))

    def _redact_tenant_names(self, text: str) -> str:
        if self._pattern is None:
            return text
        folded = fold_text(text)
        hosts = [match.span() for match in self._hosts.finditer(folded.text)] if self._hosts else []
        redacted, behind = list[str](), 0
        for start, end in self._names.iter_places(folded, self._pattern):
            if any(first <= start and end <= last for first, last in hosts):
                continue
            at, until = folded.get_original_span(start, end)
            redacted += [
                text[behind:at],
                "-" * text[max(0, at - 1) : at].isalnum(),
                TENANT_PLACEHOLDER,
                "-" * text[until : until + 1].isalnum(),
            ]
            behind = until
        return "".join((*redacted, text[behind:]))

    def build_section(self, head: str, lines: Sequence[str], printed: bool) -> DraftSection:
        rest = len(lines) - MAX_SECTION_LINES
        kept_lines = [self.clean_line(text) for text in lines[:MAX_SECTION_LINES]]
        more = [f"… and {rest} more"] if rest > 0 else []
        return DraftSection(head=head, lines=tuple(line for line in (*kept_lines, *more) if line), printed=printed)


def _build_alternation(patterns: Iterable[str]) -> str:
    """Return a pattern of all, longest first."""
    ordered = sorted(set(filter(None, patterns)), key=lambda one: (-len(one), one))
    return f"(?:{'|'.join(ordered)})" if ordered else ""


def _list_parts(
    handoff: Handoff, when: Sequence[TimelineEntry], titles: CauseTitles, theirs: bool
) -> Iterator[tuple[str, list[str], bool]]:
    """Yield (heading, lines, quoted), most important first."""
    yield (
        "What",
        [
            handoff.headline,
            f"Hosts: {report_rows.fold_hosts(handoff.hosts) or 'none named'}",
            f"For: {handoff.ticket.owner or 'unknown'}",
        ],
        False,
    )
    reported = "by a customer; their words stay in the thread" if theirs else handoff.reported
    yield "Reported", [reported] if reported else [], not theirs
    for cause in [hypothesis for hypothesis in handoff.hypotheses if hypothesis.verdict == "confirmed"][:MAX_CAUSES]:
        yield f"Root cause: {report_rows.get_cause_title(cause.label, titles)}", _list_cause_lines(cause), True
    yield "Not decided", _list_hypotheses(handoff, ("inconclusive", "open"), titles), False
    yield "Ruled out", _list_hypotheses(handoff, ("rejected",), titles), False
    yield "Could not look", [f"{row.host} {row.check}: {row.why}" for row in handoff.could_not_look], False
    yield "Out of service on our account", [f"{row.host} {row.render_status()}" for row in handoff.drained_nodes], False
    yield "Timeline (UTC)", [f"{moment.at:%Y-%m-%d %H:%M:%S}  {moment.what}" for moment in when], True


def _list_cause_lines(cause: Hypothesis) -> list[str]:
    location = f"{report_rows.format_cause_place(cause) or 'not a host fault'}, {report_rows.format_confidence(cause.confidence)} sure, {cause.label}"
    return [
        location,
        *([cause.because] if cause.because else []),
        *(f"{evidence_row.host} {evidence_row.check}: {evidence_row.line}" for evidence_row in cause.evidence[:MAX_EVIDENCE_LINES]),
    ]


def _list_hypotheses(handoff: Handoff, verdicts: Sequence[str], titles: CauseTitles) -> list[str]:
    rows = [hypothesis for hypothesis in handoff.hypotheses if hypothesis.verdict in verdicts]
    rest = [f"… and {len(rows) - MAX_RIVALS} more"] if len(rows) > MAX_RIVALS else []
    return [*(report_rows.get_cause_title(row.label, titles) for row in rows[:MAX_RIVALS]), *rest]


def _select_fitting_sections(sections: Iterable[DraftSection]) -> Iterator[DraftSection]:
    """Yield sections that fit, then a count of the rest."""
    room, left_out = MAX_TEXT_CHARS, 0
    for section in (section for section in sections if section.lines):
        room -= len(section.head) + sum(_measure_shown_chars(line) for line in section.lines)
        if room < 0:
            left_out += 1
            continue
        yield section
    if left_out:
        yield DraftSection(head="More", lines=(f"{left_out} more parts are in the thread",))


def _measure_shown_chars(line: str) -> int:
    return len(line) + 4 * sum(line.count(char) for char in "&<>") + 2 * line.count("://") + 3


def render_plain_text(draft: TrackerDraft, marker: str) -> str:
    parts = ["\n".join([section.head.upper(), *(f"  {line}" for line in section.lines)]) for section in draft.sections]
    return "\n\n".join([*parts, _render_footer(draft, marker)])


def render_markdown(draft: TrackerDraft, marker: str) -> str:
    """Return Markdown for GitHub, fenced against mentions and links."""
    parts = [f"### {_sanitize_heading(section.head)}\n\n{_fence_lines(section.lines)}" for section in draft.sections]
    return "\n\n".join([*parts, f"{_render_footer(draft, marker)}\n<!-- {marker} -->"])


def render_adf(draft: TrackerDraft, marker: str) -> dict[str, object]:
    """Return an Atlassian document for Jira."""
    blocks: list[dict[str, object]] = []
    for section in draft.sections:
        blocks.append({"type": "heading", "attrs": {"level": 3}, "content": [_build_adf_text(section.head)]})
        if section.printed:
            blocks.append({"type": "codeBlock", "content": [_build_adf_text("\n".join(section.lines))]})
        else:
            blocks += [{"type": "paragraph", "content": [_build_adf_text(line)]} for line in section.lines]
    return {
        "type": "doc",
        "version": 1,
        "content": [*blocks, *({"type": "paragraph", "content": [_build_adf_text(line)]} for line in _list_footer_lines(draft, marker))],
    }


def build_adf_paragraph(words: str) -> dict[str, object]:
    return {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": [_build_adf_text(words)]}]}


def build_draft_data(draft: TrackerDraft, marker: str) -> Mapping[str, object]:
    return {**draft.model_dump(mode="json"), "marker": marker}


def _build_adf_text(words: str) -> dict[str, object]:
    """Return a text node; Atlassian rejects empty ones."""
    return {"type": "text", "text": words or "–"}


def _sanitize_heading(head: str) -> str:
    return re.sub(r"[^\w ().,:/-]", " ", head)


def _fence_lines(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def _render_footer(draft: TrackerDraft, marker: str) -> str:
    return "\n".join(_list_footer_lines(draft, marker))


def _list_footer_lines(draft: TrackerDraft, marker: str) -> list[str]:
    return [f"Sent by RackMedic after a person's click: incident {draft.incident} ({marker})", *([draft.thread] if draft.thread else [])]
