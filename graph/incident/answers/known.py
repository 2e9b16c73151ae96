"""What is known of hosts without looking: since when, from which check, and what nobody looked at. Every line says its source and its age. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from graph.conversation.said import ALL, OTHERS, Said
from graph.engine.age import EVENTS
from graph.engine.assess import Assessment
from graph.engine.reference import is_text
from graph.incident.about import KEPT_OUT, asked_first, kept_out
from graph.incident.answers.kinds import answering
from graph.incident.answers.unproven import Unproven, unproven
from graph.incident.case import Case
from graph.incident.concluded import Concluded
from graph.incident.lifecycle import Came, becomes
from graph.ports import Ports
from graph.reading import counts
from graph.report import ShownOutput, ShownPicture
from graph.state import Evidence, Hypothesis, Ticket
from kb.redact import visible
from tools.fact import Fact
from tools.inventory.nearest import in_words
from tools.inventory.ranges import fold

OLD = timedelta(minutes=10)
"""Facts older than this come with the offer to look again."""
MOST_LINES, LONGEST_LINE, LONGEST_SAYS = 8, 160, 200
MOST_CITED = 3
"""Checks that are named behind a cause."""
SPELT_OUT = {"smi": "nvidia-smi", "topo": "nvidia-smi topo", "nvlink": "nvidia-smi nvlink", "joblog": "job log", "dmesg": "kernel log"}
"""Checks whose id is not what people call them."""

_BARE_NUMBER = re.compile(r"[\w ]{1,40}: {0,4}-?\d{5,20}(?:\.\d{1,12})?")
"""`date: 1779246188.000000000`: a line that tells people nothing."""
_LOGGED = re.compile(r"[a-z]{1,10} {0,4}:[a-z]{1,10} {0,4}: \d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)[,.\d+:-]{0,24} (.{1,600})")
"""`kern  :warn  : 2026-05-20T08:10:00,000000+00:00 NVRM: Xid …`"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a handler answers from."""

    case: Case
    now: Assessment
    ports: Ports

    @property
    def said(self) -> Said:
        return self.case.message

    @property
    def at(self) -> datetime:
        """Now."""
        return self.ports.clock.now()

    def title(self, label: str) -> str:
        return self.now.lens.taxonomy.title(label)

    @property
    def roots(self) -> tuple[Hypothesis, ...]:
        return self.now.root_causes()

    @property
    def guilty(self) -> tuple[str, ...]:
        """Hosts at fault, in the order of the causes."""
        return tuple(dict.fromkeys(host for row in self.roots for host in row.hosts))

    @property
    def seen(self) -> tuple[str, ...]:
        """Hosts that anything is known of."""
        known = {fact.host for fact in self.case.facts if fact.host}
        return tuple(host for host in self.case.visible if host in known)


@dataclass(frozen=True, slots=True)
class HostsMeant:
    """The hosts that a message is about. `named` where it named them itself."""

    hosts: tuple[str, ...]
    named: bool = True


def meant(asked: Asked) -> HostsMeant:
    """Those that it names, a group's, or all, but for those that it leaves out; else those at fault, else all that were looked at."""
    said, visible_ones = asked.said, set(asked.case.visible)
    named = tuple(host for host in said.hosts if host in visible_ones)
    if named or said.unknown_hosts:
        return HostsMeant(named)
    if said.group and said.group not in (ALL, OTHERS):
        members = asked.ports.inventory.groups.get(said.group, ())
        return HostsMeant(tuple(host for host in members if host in visible_ones and host not in said.left_out))
    if said.left_out:
        return HostsMeant(tuple(host for host in asked.seen if host not in said.left_out))
    if said.group == ALL:
        return HostsMeant(asked.seen)
    if said.group == OTHERS:
        return HostsMeant(tuple(host for host in asked.seen if host not in asked.guilty) or asked.seen)
    return HostsMeant(asked.guilty or asked.case.hosts or asked.seen, named=False)


def unknown_said(asked: Asked) -> list[str]:
    """A line about names that nobody knows, with those that may be meant; none without any."""
    words = in_words(asked.case.unknown(asked.said.unknown_hosts))
    return [f"{words[0].upper()}{words[1:]}."] if words else []


def say(
    asked: Asked,
    lines: Iterable[str],
    came: Came | None = None,
    *,
    most: int = MOST_LINES,
    owner: str | None = None,
    ticket: Ticket | None = None,
    shown: Sequence[ShownOutput] = (),
    pictures: Sequence[ShownPicture] = (),
) -> Concluded:
    """A few lines as the answer; what stands stays, but for what is given."""
    kept = [line for line in lines if line]
    if len(kept) > most:
        kept = [*kept[: most - 1], f"… and {len(kept) - most + 1} more lines; ask for one host or check to see the rest."]
    report = answering(asked.case, "\n".join(kept)).model_copy(update={"shown": tuple(shown), "pictures": tuple(pictures)})
    lifecycle = becomes(asked.case.lifecycle, came) if came else None
    return Concluded(report, lifecycle=lifecycle, owner=owner, ticket=ticket)


def clean(text: str, most: int = LONGEST_LINE) -> str:
    """A host's or a person's words on one line, bounded."""
    line = " ".join(visible(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def ago(then: datetime | None, now: datetime) -> str:
    """`4 min ago`; the time itself after a day."""
    if then is None:
        return "at an unknown time"
    seconds = (now - then).total_seconds()
    if seconds < 90:
        return "just now"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago" if seconds < 86_400 else f"{then:%Y-%m-%d %H:%M} UTC"


def read_at(asked: Asked, host: str, check: str = "") -> datetime | None:
    """When a host, or a check of it, was read last. What happened at a time of its own says nothing of that."""
    own = [fact for fact in asked.case.facts if fact.host == host and fact.time and not fact.key.startswith(EVENTS)]
    times = [fact.time for fact in own if fact.time and fact.check == check] or [fact.time for fact in own if fact.time]
    return max(times, default=None)


def offer(asked: Asked, hosts: Sequence[str]) -> str:
    """Where something is old: how to have it read again."""
    times = [at for host in hosts if (at := read_at(asked, host))]
    return f"Say `recheck {fold(hosts)}` for now." if times and asked.at - min(times) > OLD else ""


def name_of(check: str) -> str:
    """A check as people call it."""
    return SPELT_OUT.get(check, check)


def source(asked: Asked, host: str, check: str) -> str:
    """`gpu-002 · kernel log · read 4 min ago`."""
    if not host:
        return f"handed in · {name_of(check)}"
    return f"{host} · {name_of(check)} · read {ago(read_at(asked, host, check), asked.at)}"


def quoted(asked: Asked, row: Evidence) -> str:
    """A line as a host printed it, behind its source; of markup what it says."""
    return f"  {source(asked, row.host, row.check)}: {readable(row.line, row.says)}"


def shown_by(asked: Asked, fact: Fact) -> str:
    """The same of a fact."""
    return f"  {source(asked, fact.host, fact.check)}: {readable(fact.line, f'{fact.key} = {fact.value}')}"


def readable(line: str, says: str) -> str:
    """A line as people read it: of the kernel's log the time of day and the message, of XML what it says."""
    if not line or line.lstrip().startswith("<") or (says and _BARE_NUMBER.fullmatch(line)):
        return clean(says or line)
    found = _LOGGED.match(line)
    return clean(f"{found[1]} {found[2]}" if found else line)


def sure(row: Hypothesis) -> str:
    """How sure, in the number that the card says."""
    return f"{counts.sure(row.confidence)} sure"


def rests_on(rows: Iterable[Evidence | Fact]) -> str:
    """`lspci, kernel log on gpu-003`: with which checks something was seen, and where; what people handed in is said to be so."""
    told = list(rows)
    checks = list(dict.fromkeys(name_of(row.check) for row in told))
    hosts = tuple(dict.fromkeys(row.host for row in told if row.host))
    return f"{', '.join(checks[:MOST_CITED])} on {fold(hosts)}" if hosts else f"{', '.join(checks[:MOST_CITED])} handed in"


def cited(row: Hypothesis) -> str:
    """` (lspci, kernel log on gpu-003)`, behind a cause that is named in passing; empty where it rests on nothing that is kept."""
    return f" ({rests_on(row.evidence)})" if row.evidence else ""


def ruled_out_by(asked: Asked, label: str) -> str:
    """What speaks against a cause, with where it was read."""
    standing = asked.now.standings[label]
    against = [match.fact for match in standing.best.against[:MOST_CITED]]
    return rests_on(against) if against else clean(standing.because.removesuffix(", nothing shows it"), 100)


def where(row: Hypothesis) -> str:
    """Devices, else hosts, else that no machine is at fault."""
    return ", ".join(row.devices[:4]) or (fold(row.hosts) if row.hosts else "no machine at fault")


@dataclass(frozen=True, slots=True)
class HostKnown:
    """What is known of one host. `causes` are on it, `shows` are no machine's fault and show there; `odd` are abnormal facts."""

    host: str
    causes: tuple[Hypothesis, ...]
    shows: tuple[Hypothesis, ...]
    odd: tuple[Fact, ...]
    looked: tuple[str, ...]
    """Checks that could look."""
    blind: tuple[tuple[str, str], ...]
    """Checks that could not, and why."""
    whole: bool
    """Every passive check of the machine was asked and could look."""
    read: datetime | None
    unproven: tuple[Unproven, ...] = ()
    """What speaks against it and no proven cause explains, as far as its host is known."""
    unplaced: tuple[Unproven, ...] = ()
    """The same of which nobody knows the host: it counts for every host."""

    @property
    def dark(self) -> bool:
        """Nobody looked at it, or no look succeeded."""
        return not self.looked


def looked_with(asked: Asked, known: HostKnown) -> str:
    """`22 checks, read 4 min ago`: with how much a host was looked at, and when."""
    return f"{len(known.looked)} check{'s' * (len(known.looked) != 1)}, read {ago(known.read, asked.at)}"


def of_host(asked: Asked, host: str) -> HostKnown:
    """What the stored facts say."""
    now = asked.now
    here, _ = asked_first(now.root_causes(), (host,), now.shown)
    coverage, checks = now.coverage, now.lens.checks
    own = {check for asked_host, check in coverage.asked if asked_host == host and check in checks}
    looked = tuple(check.id for check in checks.values() if check.id in own and coverage.looked(host, check.id))
    blind = tuple((check, why) for (blind_host, check), why in sorted(coverage.blind.items()) if blind_host == host and check in checks)
    machine = [check.id for check in now.lens.passive() if not all(map(is_text, check.establishes))]
    whole = all(check in own for check in machine) and not {check for check, _ in blind} & set(machine)
    odd = tuple(fact for fact in now.odd if fact.host == host and not is_text(fact.key) and fact.key not in KEPT_OUT)
    looked = () if kept_out(now, (host,)) else looked  # what answered in a look before says nothing of now
    causes = tuple(row for row in here if host in row.hosts)
    shows = tuple(row for row in here if not row.hosts and any(cited.host == host for cited in row.evidence))
    against = [row for row in unproven(asked.case, now) if row.concerns(host)]
    placed, unplaced = (tuple(row for row in against if bool(row.hosts) is known) for known in (True, False))
    return HostKnown(host, causes, shows, odd, looked, blind, whole, read_at(asked, host), placed, unplaced)


def branch_of(labels: Sequence[str]) -> str:
    """What several labels have in common; empty where nothing."""
    same = [step[0] for step in zip(*(label.split(".") for label in labels), strict=False) if len(set(step)) == 1]
    return ".".join(same)
