"""Read attachments and fenced blocks with the hosts' parsers, at lower trust. Pure.

Such facts have no host, because anyone could have written them. They may prove causes that accuse no machine, and
suggest others.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graph.state import Attachment, InboxItem
from kb.logs.log_lines import find_time, split_prefix
from kb.logs.ranks import split_rank_tag
from kb.needle_search import MAX_LINE_CHARS, split_lines
from kb.redact import redact
from tools.checks.check_types import Check, count_left_out, limit_facts
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status

FENCE_PATTERN = re.compile(r"```[^\n`]*\n?(.*?)```", re.DOTALL)
# Characters of a log read for facts, and how many of them from its start; the rest is its end. The whole log is stored
# and goes into templates.
MAX_LOG_CHARS = 4 << 20
HEAD_CHARS = 1 << 20
MAX_OUTPUT_CHARS = 2 << 20  # Characters read of any other output; no tool prints more about one machine.
# A longer line is cut to what readers use, so that it does not push later lines out of reach.
MAX_WHOLE_LINE_CHARS = 1 << 20


MAX_TEXT_CHARS = 4000
JOB_LOG_CHECK = "joblog"  # The check whose format fits any text.
_LOG_LINE_PATTERN = re.compile(
    r"==> |\S{1,80}:\d{1,10}:\d{1,10} \[\d{1,3}\] |Traceback \(most recent|\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|FATAL)\b"
)
_MAX_HEAD_LINES = 60  # Lines by which a text's form is judged.


async def store_attachments(item: InboxItem, evidence: EvidenceStore) -> InboxItem:
    """Return the item as it may be stored: text redacted and bounded, pasted and attached text in the evidence store."""
    handed_in = [
        attachment.model_copy(update={"size": attachment.size or len(attachment.text.encode())}) for attachment in item.attachments
    ]
    stored_attachments = [
        await _store_attachment(attachment, item.incident, evidence)
        for attachment in (*handed_in, *find_fenced_blocks(item.text), *find_quoted_lines(strip_fences(item.text)))
    ]
    return item.model_copy(
        update={"text": redact(strip_fences(item.text)).strip()[:MAX_TEXT_CHARS], "attachments": tuple(stored_attachments)}
    )


async def _store_attachment(given: Attachment, incident: str, evidence: EvidenceStore) -> Attachment:
    name = redact(given.name)[:80]
    if given.unread:
        return Attachment(name=name, size=given.size, unread=given.unread)
    return Attachment(name=name, sha256=given.sha256 or await evidence.put_text(incident, given.text), size=given.size)


def find_fenced_blocks(text: str) -> tuple[Attachment, ...]:
    """Return fenced blocks, which are pasted logs and not words."""
    blocks = (block.strip() for block in FENCE_PATTERN.findall(text))
    return tuple(Attachment(name=f"pasted {n}", text=block) for n, block in enumerate((b for b in blocks if "\n" in b or len(b) > 40), 1))


# Starts of machine-printed lines, anywhere in a pasted sentence.
_MACHINE_LINE_PATTERN = re.compile(
    r"(?:[\w.-]{1,80} )?kernel: (?:\[ *\d{1,10}\.\d{1,9}\] ?)?\S|NVRM: (?:Xid|GPU|RmInit|API mismatch|The NVIDIA|RC watchdog)|"
    r"nvidia-nvswitch\d{0,3}: |SXid \(PCI|mlx5_core [0-9a-f]{4}:|NETDEV WATCHDOG: |"
    r"\S{1,80}:\d{1,10}:\d{1,10} \[\d{1,3}\] .{0,80}NCCL (?:WARN|INFO)|NCCL WARN |\[rank ?\d{1,6}\]: ?\S|"
    r"slurmstepd: error|srun: error|Traceback \(most recent call last\)|"
    r"[0-9a-fA-F]{1,4} \| {0,4}(?:\d\d/\d\d/\d{2,4}|Pre-Init) {0,8}\| {0,4}[^|\n]{1,20}\|[^|\n]{1,80}\|"
)
_MAX_QUOTED_LINES = 2000
_BEFORE_COLON = re.compile(r"([\w.-]{1,80}): (?=kernel: )")
# The host before a kernel line, as syslog writes it.
_WRITER = re.compile(r"(?:^|\s)(?P<host>[A-Za-z][\w.-]{0,79}) kernel: ")


def get_line_head(line: str) -> str:
    """Return what precedes a machine's words in a line: time and host, or people's words."""
    line = _BEFORE_COLON.sub(r"\1 ", line[:4000], count=1)
    match = _MACHINE_LINE_PATTERN.search(line)
    if match is None:
        return ""
    kernel = line.find("kernel:", match.start(), match.end() + 8)
    return line[: kernel if kernel >= 0 else match.start()]


def get_line_writer(line: str) -> str:
    match = _WRITER.search(_BEFORE_COLON.sub(r"\1 ", line[:400], count=1))
    return match["host"] if match else ""


def find_quoted_lines(text: str) -> tuple[Attachment, ...]:
    """Return log lines pasted without a fence, recognised by form. They also stay in the text."""
    lines = [line for raw in split_lines(text)[:_MAX_QUOTED_LINES] if (line := _parse_quoted_line(raw.strip().strip("`")))]
    return (Attachment(name="pasted lines", text="\n".join(lines)),) if lines else ()


def _parse_quoted_line(line: str) -> str:
    line = _BEFORE_COLON.sub(r"\1 ", line, count=1)
    match = _MACHINE_LINE_PATTERN.search(line[:4000])
    if match is None:
        return ""
    return line if split_prefix(line).found else line[match.start() :]


def strip_fences(text: str) -> str:
    return FENCE_PATTERN.sub(" ", text)


@dataclass(frozen=True, slots=True)
class PastedFacts:
    """The facts of a text. `left_out` counts entries beyond what one machine can have."""

    facts: tuple[Fact, ...]
    left_out: int = 0
    recognised: bool = True  # Whether a reader knows this kind of text. An unrecognised one is not called clean.


def extract_pasted_facts(text: str, checks: Mapping[str, Check]) -> PastedFacts:
    """Return facts of every check whose format matches; an unknown form gives its telling lines as not understood."""
    facts_by_source: dict[tuple[str, str | None, str, str], Fact] = {}
    dropped_count = 0
    log = bound_text(text)
    recognised = looks_like_log(log)
    for check in checks.values():
        body = log if check.partial else log[:MAX_OUTPUT_CHARS]
        for shape in check.formats:
            if shape.sniff(body):
                facts = check.parse_output(body)
                recognised = recognised or _is_understood(check.id, facts)
                dropped_count += count_left_out(facts)
                for fact in facts:
                    if fact.key and not fact.status.blind:
                        facts_by_source.setdefault((fact.key, fact.device, repr(fact.value), fact.line), replace(fact, host=""))
                break
    read = list(facts_by_source.values())
    if any(
        fact.check != JOB_LOG_CHECK and fact.status is Status.OK for fact in read
    ):  # another reader understood the text, so the job log reader's unknown lines do not count
        read = [fact for fact in read if fact.key != NOT_UNDERSTOOD_KEY or fact.check != JOB_LOG_CHECK]
    if not recognised and not any(fact.key == NOT_UNDERSTOOD_KEY for fact in read):
        read.append(Fact(JOB_LOG_CHECK, NOT_UNDERSTOOD_KEY, 0, line=_get_first_line(text)))
    kept_facts = limit_facts("", read, dropped_count)
    return PastedFacts(tuple(fact for fact in kept_facts if fact.key), count_left_out(kept_facts), recognised)


def _get_first_line(text: str) -> str:
    return next((line.strip()[:100] for line in split_lines(text[:4096]) if line.strip()), "")


def _is_understood(check: str, facts: Sequence[Fact]) -> bool:
    """The job log reader accepts any text, so only an error counts."""
    if check == JOB_LOG_CHECK:
        return any(fact.key == "job.error" and fact.status is Status.OK for fact in facts)
    return any(fact.key and not fact.status.blind for fact in facts)


def looks_like_log(text: str) -> bool:
    """Return whether a third of the first lines start with a time, rank, level or NCCL prefix."""
    head = [line for line in split_lines(text[:65536])[: 2 * _MAX_HEAD_LINES] if line.strip()][:_MAX_HEAD_LINES]
    of_a_log = sum(bool(split_rank_tag(line)[0] or _LOG_LINE_PATTERN.match(line) or find_time(line[:120])) for line in head)
    return 3 * of_a_log >= len(head) > 0


def bound_text(text: str) -> str:
    """Cut huge lines, and return whole lines from a long text's start and end."""
    text = _shorten_long_lines(text) if len(text) > MAX_WHOLE_LINE_CHARS else text
    if len(text) <= MAX_LOG_CHARS:
        return text
    head = text[: text.rfind("\n", 0, HEAD_CHARS) + 1] or text[:HEAD_CHARS]
    start = text.find("\n", len(text) - (MAX_LOG_CHARS - HEAD_CHARS)) + 1
    return head + (text[start:] if start else "")


def _shorten_long_lines(text: str) -> str:
    parts: list[str] = []
    at = copied_to = 0
    while len(text) - at > MAX_WHOLE_LINE_CHARS:
        last = text.rfind("\n", at, at + MAX_WHOLE_LINE_CHARS)
        if last >= 0:
            at = last + 1
            continue
        end = text.find("\n", at + MAX_WHOLE_LINE_CHARS)
        parts.append(text[copied_to : at + MAX_LINE_CHARS])
        at = copied_to = end if end >= 0 else len(text)
    return "".join((*parts, text[copied_to:]))
