"""What people hand in: attachments and fenced blocks, read by the same parsers as a host's answers but believed less. Pure.

Such facts carry no host: anyone could have written them. They may prove what accuses no machine, and suggest everything else.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graph.state import Attachment, InboxItem
from kb.logs.job.ranks import split_rank_tag
from kb.logs.timestamps import find_time, split_prefix
from kb.redact import redact
from kb.scan import MAX_LINE_CHARS, split_lines
from tools.checks.check import Check
from tools.checks.fact_limits import count_left_out, limit_facts
from tools.checks.not_understood import KEY as NOT_UNDERSTOOD
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status

FENCE_PATTERN = re.compile(r"```[^\n`]*\n?(.*?)```", re.DOTALL)
MAX_LOG_CHARS, HEAD_CHARS = 4 << 20, 1 << 20
"""Characters of one log that are read for facts, and how many of them from its beginning: the rest is its end. All of it is stored, and all of
it goes into the log's templates."""
MAX_OUTPUT_CHARS = 2 << 20
"""Characters of any other output that are read: no machine prints so much of itself."""
MAX_WHOLE_LINE_CHARS = 1 << 20
"""A line longer than this is read as far as any reader looks into a line: what stands behind it must not be out of reach."""


MAX_TEXT_CHARS = 4000
JOB_LOG_CHECK = "joblog"
"""The check whose format any text may be of."""
_LOG_LINE_PATTERN = re.compile(
    r"==> |\S{1,80}:\d{1,10}:\d{1,10} \[\d{1,3}\] |Traceback \(most recent|\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|FATAL)\b"
)
_MAX_HEAD_LINES = 60
"""Lines by which the form of a text is judged."""


async def store_attachments(item: InboxItem, evidence: EvidenceStore) -> InboxItem:
    """The item as it may be stored: words redacted and bounded, everything pasted or attached in the evidence store by digest."""
    handed_in = [given.model_copy(update={"size": given.size or len(given.text.encode())}) for given in item.attachments]
    kept = [
        await _store_attachment(given, item.incident, evidence)
        for given in (*handed_in, *find_fenced_blocks(item.text), *find_quoted_lines(strip_fences(item.text)))
    ]
    return item.model_copy(update={"text": redact(strip_fences(item.text)).strip()[:MAX_TEXT_CHARS], "attachments": tuple(kept)})


async def _store_attachment(given: Attachment, incident: str, evidence: EvidenceStore) -> Attachment:
    name = redact(given.name)[:80]
    if given.unread:
        return Attachment(name=name, size=given.size, unread=given.unread)
    return Attachment(name=name, sha256=given.sha256 or await evidence.put_text(incident, given.text), size=given.size)


def find_fenced_blocks(text: str) -> tuple[Attachment, ...]:
    """Blocks between triple backticks are pasted logs, not words."""
    blocks = (block.strip() for block in FENCE_PATTERN.findall(text))
    return tuple(Attachment(name=f"pasted {n}", text=block) for n, block in enumerate((b for b in blocks if "\n" in b or len(b) > 40), 1))


_MACHINE_LINE_PATTERN = re.compile(
    r"(?:[\w.-]{1,80} )?kernel: (?:\[ *\d{1,10}\.\d{1,9}\] ?)?\S|NVRM: (?:Xid|GPU|RmInit|API mismatch|The NVIDIA|RC watchdog)|"
    r"nvidia-nvswitch\d{0,3}: |SXid \(PCI|mlx5_core [0-9a-f]{4}:|NETDEV WATCHDOG: |"
    r"\S{1,80}:\d{1,10}:\d{1,10} \[\d{1,3}\] .{0,80}NCCL (?:WARN|INFO)|NCCL WARN |\[rank ?\d{1,6}\]: ?\S|"
    r"slurmstepd: error|srun: error|Traceback \(most recent call last\)|"
    r"[0-9a-fA-F]{1,4} \| {0,4}(?:\d\d/\d\d/\d{2,4}|Pre-Init) {0,8}\| {0,4}[^|\n]{1,20}\|[^|\n]{1,80}\|"
)
"""How lines begin that machines print, wherever in a sentence somebody pasted them."""
_MAX_QUOTED_LINES = 2000
_BEFORE_COLON = re.compile(r"([\w.-]{1,80}): (?=kernel: )")
_WRITER = re.compile(r"(?:^|\s)(?P<host>[A-Za-z][\w.-]{0,79}) kernel: ")
"""The host in front of a kernel's line, as syslog writes it."""


def head_of(line: str) -> str:
    """What stands in a line before a machine's own words: when and by which host it was written, or what people say of it."""
    line = _BEFORE_COLON.sub(r"\1 ", line[:4000], count=1)
    found = _MACHINE_LINE_PATTERN.search(line)
    if found is None:
        return ""
    kernel = line.find("kernel:", found.start(), found.end() + 8)
    return line[: kernel if kernel >= 0 else found.start()]


def writer_of(line: str) -> str:
    """The host's name in front of a kernel's line; "" where it has none."""
    found = _WRITER.search(_BEFORE_COLON.sub(r"\1 ", line[:400], count=1))
    return found["host"] if found else ""


def find_quoted_lines(text: str) -> tuple[Attachment, ...]:
    """Lines of logs that somebody pasted without a fence, known by their form. They stay words as well."""
    lines = [line for raw in split_lines(text)[:_MAX_QUOTED_LINES] if (line := _parse_quoted_line(raw.strip().strip("`")))]
    return (Attachment(name="pasted lines", text="\n".join(lines)),) if lines else ()


def _parse_quoted_line(line: str) -> str:
    """A line from where its machine's words begin; "" where it has none."""
    line = _BEFORE_COLON.sub(r"\1 ", line, count=1)
    found = _MACHINE_LINE_PATTERN.search(line[:4000])
    if found is None:
        return ""
    return line if split_prefix(line).found else line[found.start() :]


def strip_fences(text: str) -> str:
    """The words around pasted blocks."""
    return FENCE_PATTERN.sub(" ", text)


@dataclass(frozen=True, slots=True)
class PastedFacts:
    """The facts of a text, and how much of what it says was left out of them: a machine has no such number of anything."""

    facts: tuple[Fact, ...]
    left_out: int = 0
    recognised: bool = True
    """Whether some reader knows this kind of text. Of any other nothing was read, and it is not clean."""


def extract_pasted_facts(text: str, checks: Mapping[str, Check]) -> PastedFacts:
    """Facts of every check whose format the text is of. A text of no known form yields its telling lines as not understood."""
    found: dict[tuple[str, str | None, str, str], Fact] = {}
    gone = 0
    log = bound_text(text)
    recognised = looks_like_log(log)
    for check in checks.values():
        body = log if check.partial else log[:MAX_OUTPUT_CHARS]
        for shape in check.formats:
            if shape.sniff(body):
                facts = check.parse_output(body)
                recognised = recognised or _is_understood(check.id, facts)
                gone += count_left_out(facts)
                for fact in facts:
                    if fact.key and not fact.status.blind:
                        found.setdefault((fact.key, fact.device, repr(fact.value), fact.line), replace(fact, host=""))
                break
    read = list(found.values())
    if any(
        fact.check != JOB_LOG_CHECK and fact.status is Status.OK for fact in read
    ):  # its own reader says which of its lines it does not know
        read = [fact for fact in read if fact.key != NOT_UNDERSTOOD or fact.check != JOB_LOG_CHECK]
    if not recognised and not any(fact.key == NOT_UNDERSTOOD for fact in read):
        read.append(Fact(JOB_LOG_CHECK, NOT_UNDERSTOOD, 0, line=_get_first_line(text)))
    kept = limit_facts("", read, gone)
    return PastedFacts(tuple(fact for fact in kept if fact.key), count_left_out(kept), recognised)


def _get_first_line(text: str) -> str:
    return next((line.strip()[:100] for line in split_lines(text[:4096]) if line.strip()), "")


def _is_understood(check: str, facts: Sequence[Fact]) -> bool:
    """Whether a reader made something of a text. That of job logs takes any; only an error that it found is one."""
    if check == JOB_LOG_CHECK:
        return any(fact.key == "job.error" and fact.status is Status.OK for fact in facts)
    return any(fact.key and not fact.status.blind for fact in facts)


def looks_like_log(text: str) -> bool:
    """Whether a third of the first lines begin as lines of logs do: with a time, a rank, a level, or as NCCL's."""
    head = [line for line in split_lines(text[:65536])[: 2 * _MAX_HEAD_LINES] if line.strip()][:_MAX_HEAD_LINES]
    of_a_log = sum(bool(split_rank_tag(line)[0] or _LOG_LINE_PATTERN.match(line) or find_time(line[:120])) for line in head)
    return 3 * of_a_log >= len(head) > 0


def bound_text(text: str) -> str:
    """What is read of a text: monstrous lines shortened, and of a long one its beginning and its end, in whole lines."""
    text = _shorten_long_lines(text) if len(text) > MAX_WHOLE_LINE_CHARS else text
    if len(text) <= MAX_LOG_CHARS:
        return text
    head = text[: text.rfind("\n", 0, HEAD_CHARS) + 1] or text[:HEAD_CHARS]
    start = text.find("\n", len(text) - (MAX_LOG_CHARS - HEAD_CHARS)) + 1
    return head + (text[start:] if start else "")


def _shorten_long_lines(text: str) -> str:
    parts: list[str] = []
    at = whole = 0
    while len(text) - at > MAX_WHOLE_LINE_CHARS:
        last = text.rfind("\n", at, at + MAX_WHOLE_LINE_CHARS)
        if last >= 0:
            at = last + 1
            continue
        end = text.find("\n", at + MAX_WHOLE_LINE_CHARS)
        parts.append(text[whole : at + MAX_LINE_CHARS])
        at = whole = end if end >= 0 else len(text)
    return "".join((*parts, text[whole:]))
