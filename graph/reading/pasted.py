"""What people hand in: attachments and fenced blocks, read by the same parsers as a host's answers but believed less. Pure.

Such facts carry no host: anyone could have written them. They may prove what accuses no machine, and suggest everything else.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graph.state import Attachment, Item
from kb.logs.job.ranks import untag
from kb.logs.timestamps import find_time, split
from kb.redact import redact
from kb.scan import LONGEST, lines_in
from tools.checks.few import few, gone_of
from tools.checks.not_understood import KEY as NOT_UNDERSTOOD
from tools.checks.row import Check
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status

FENCE = re.compile(r"```[^\n`]*\n?(.*?)```", re.DOTALL)
MOST_READ, BEGINNING = 4 << 20, 1 << 20
"""Characters of one log that are read for facts, and how many of them from its beginning: the rest is its end. All of it is stored, and all of
it goes into the log's templates."""
MOST_OUTPUT = 2 << 20
"""Characters of any other output that are read: no machine prints so much of itself."""
MONSTER = 1 << 20
"""A line longer than this is read as far as any reader looks into a line: what stands behind it must not be out of reach."""


LONGEST_TEXT = 4000
JOB_LOG = "joblog"
"""The check whose format any text may be of."""
_OF_A_LOG = re.compile(r"==> |\S{1,80}:\d{1,10}:\d{1,10} \[\d{1,3}\] |Traceback \(most recent|\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|FATAL)\b")
_MOST_HEAD = 60
"""Lines by which the form of a text is judged."""


async def shelve(item: Item, evidence: EvidenceStore) -> Item:
    """The item as it may be stored: words redacted and bounded, everything pasted or attached in the evidence store by digest."""
    handed_in = [given.model_copy(update={"size": given.size or len(given.text.encode())}) for given in item.attachments]
    kept = [
        await _shelved(given, item.incident, evidence) for given in (*handed_in, *fenced(item.text), *quoted(without_fences(item.text)))
    ]
    return item.model_copy(update={"text": redact(without_fences(item.text)).strip()[:LONGEST_TEXT], "attachments": tuple(kept)})


async def _shelved(given: Attachment, incident: str, evidence: EvidenceStore) -> Attachment:
    name = redact(given.name)[:80]
    if given.unread:
        return Attachment(name=name, size=given.size, unread=given.unread)
    return Attachment(name=name, sha256=given.sha256 or await evidence.put(incident, given.text), size=given.size)


def fenced(text: str) -> tuple[Attachment, ...]:
    """Blocks between triple backticks are pasted logs, not words."""
    blocks = (block.strip() for block in FENCE.findall(text))
    return tuple(Attachment(name=f"pasted {n}", text=block) for n, block in enumerate((b for b in blocks if "\n" in b or len(b) > 40), 1))


_MACHINES = re.compile(
    r"(?:[\w.-]{1,80} )?kernel: (?:\[ *\d{1,10}\.\d{1,9}\] ?)?\S|NVRM: (?:Xid|GPU|RmInit|API mismatch|The NVIDIA|RC watchdog)|"
    r"nvidia-nvswitch\d{0,3}: |SXid \(PCI|mlx5_core [0-9a-f]{4}:|NETDEV WATCHDOG: |"
    r"\S{1,80}:\d{1,10}:\d{1,10} \[\d{1,3}\] .{0,80}NCCL (?:WARN|INFO)|NCCL WARN |\[rank ?\d{1,6}\]: ?\S|"
    r"slurmstepd: error|srun: error|Traceback \(most recent call last\)|"
    r"[0-9a-fA-F]{1,4} \| {0,4}(?:\d\d/\d\d/\d{2,4}|Pre-Init) {0,8}\| {0,4}[^|\n]{1,20}\|[^|\n]{1,80}\|"
)
"""How lines begin that machines print, wherever in a sentence somebody pasted them."""
_MOST_QUOTED = 2000
_BEFORE_COLON = re.compile(r"([\w.-]{1,80}): (?=kernel: )")
_WRITER = re.compile(r"(?:^|\s)(?P<host>[A-Za-z][\w.-]{0,79}) kernel: ")
"""The host in front of a kernel's line, as syslog writes it."""


def head_of(line: str) -> str:
    """What stands in a line before a machine's own words: when and by which host it was written, or what people say of it."""
    line = _BEFORE_COLON.sub(r"\1 ", line[:4000], count=1)
    found = _MACHINES.search(line)
    if found is None:
        return ""
    kernel = line.find("kernel:", found.start(), found.end() + 8)
    return line[: kernel if kernel >= 0 else found.start()]


def writer_of(line: str) -> str:
    """The host's name in front of a kernel's line; "" where it has none."""
    found = _WRITER.search(_BEFORE_COLON.sub(r"\1 ", line[:400], count=1))
    return found["host"] if found else ""


def quoted(text: str) -> tuple[Attachment, ...]:
    """Lines of logs that somebody pasted without a fence, known by their form. They stay words as well."""
    lines = [line for raw in lines_in(text)[:_MOST_QUOTED] if (line := _quoted_line(raw.strip().strip("`")))]
    return (Attachment(name="pasted lines", text="\n".join(lines)),) if lines else ()


def _quoted_line(line: str) -> str:
    """A line from where its machine's words begin; "" where it has none."""
    line = _BEFORE_COLON.sub(r"\1 ", line, count=1)
    found = _MACHINES.search(line[:4000])
    if found is None:
        return ""
    return line if split(line).found else line[found.start() :]


def without_fences(text: str) -> str:
    """The words around pasted blocks."""
    return FENCE.sub(" ", text)


@dataclass(frozen=True, slots=True)
class Pasted:
    """The facts of a text, and how much of what it says was left out of them: a machine has no such number of anything."""

    facts: tuple[Fact, ...]
    left_out: int = 0
    recognised: bool = True
    """Whether some reader knows this kind of text. Of any other nothing was read, and it is not clean."""


def read_pasted(text: str, checks: Mapping[str, Check]) -> Pasted:
    """Facts of every check whose format the text is of. A text of no known form yields its telling lines as not understood."""
    found: dict[tuple[str, str | None, str, str], Fact] = {}
    gone = 0
    log = within(text)
    recognised = looks_like_a_log(log)
    for check in checks.values():
        body = log if check.partial else log[:MOST_OUTPUT]
        for shape in check.formats:
            if shape.sniff(body):
                facts = check.read(body)
                recognised = recognised or _understood(check.id, facts)
                gone += gone_of(facts)
                for fact in facts:
                    if fact.key and not fact.status.blind:
                        found.setdefault((fact.key, fact.device, repr(fact.value), fact.line), replace(fact, host=""))
                break
    read = list(found.values())
    if any(fact.check != JOB_LOG and fact.status is Status.OK for fact in read):  # its own reader says which of its lines it does not know
        read = [fact for fact in read if fact.key != NOT_UNDERSTOOD or fact.check != JOB_LOG]
    if not recognised and not any(fact.key == NOT_UNDERSTOOD for fact in read):
        read.append(Fact(JOB_LOG, NOT_UNDERSTOOD, 0, line=_first_line(text)))
    kept = few("", read, gone)
    return Pasted(tuple(fact for fact in kept if fact.key), gone_of(kept), recognised)


def _first_line(text: str) -> str:
    return next((line.strip()[:100] for line in lines_in(text[:4096]) if line.strip()), "")


def _understood(check: str, facts: Sequence[Fact]) -> bool:
    """Whether a reader made something of a text. That of job logs takes any; only an error that it found is one."""
    if check == JOB_LOG:
        return any(fact.key == "job.error" and fact.status is Status.OK for fact in facts)
    return any(fact.key and not fact.status.blind for fact in facts)


def looks_like_a_log(text: str) -> bool:
    """Whether a third of the first lines begin as lines of logs do: with a time, a rank, a level, or as NCCL's."""
    head = [line for line in lines_in(text[:65536])[: 2 * _MOST_HEAD] if line.strip()][:_MOST_HEAD]
    of_a_log = sum(bool(untag(line)[0] or _OF_A_LOG.match(line) or find_time(line[:120])) for line in head)
    return 3 * of_a_log >= len(head) > 0


def within(text: str) -> str:
    """What is read of a text: monstrous lines shortened, and of a long one its beginning and its end, in whole lines."""
    text = _shortened(text) if len(text) > MONSTER else text
    if len(text) <= MOST_READ:
        return text
    head = text[: text.rfind("\n", 0, BEGINNING) + 1] or text[:BEGINNING]
    start = text.find("\n", len(text) - (MOST_READ - BEGINNING)) + 1
    return head + (text[start:] if start else "")


def _shortened(text: str) -> str:
    parts: list[str] = []
    at = whole = 0
    while len(text) - at > MONSTER:
        last = text.rfind("\n", at, at + MONSTER)
        if last >= 0:
            at = last + 1
            continue
        end = text.find("\n", at + MONSTER)
        parts.append(text[whole : at + LONGEST])
        at = whole = end if end >= 0 else len(text)
    return "".join((*parts, text[whole:]))
