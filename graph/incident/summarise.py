"""First node: what people said becomes a brief, what they handed in becomes facts. Items come redacted (`graph.reading.pasted.shelve`)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from langgraph.runtime import Runtime

from graph.conversation.guessed import choices, is_left, with_guess
from graph.conversation.intents import Intent
from graph.conversation.said import ALL, OTHERS
from graph.engine.abnormal import is_odd
from graph.engine.age import LOG_END, MACHINE_EVENTS
from graph.engine.prior import likely_by_words
from graph.exchange.evidence import told_facts
from graph.incident.case import DIAGNOSED, MOST_UNNAMED, Case, Turn, merged, read_case
from graph.incident.second_look import is_second_look
from graph.incident.thinking.material import MOST_OFFERED, material_of
from graph.model.reasoner import Declined, Reading, Reasoner
from graph.ports import Ports, Progress
from graph.reading.asked import asks_how_they_are, hosts_asked_about
from graph.reading.concerned import Concerned, asks_scheduler, concerned
from graph.reading.files import LONGEST_NAME, acknowledged, is_file, unread
from graph.reading.groups import group_called, hosts_named
from graph.reading.handed_in import HandedIn, read_handed_in
from graph.reading.hosts import hosts_in
from graph.reading.logs import kept
from graph.reading.pasted import head_of, writer_of
from graph.reading.physical import physical_reports
from graph.reading.reports import Understanding, understand
from graph.reading.theirs import kept_of
from graph.reading.times import window
from graph.report import FileRead
from graph.state import CUSTOMER, SIDE, Attachment, Brief, Incident, ItemKind, LogDigest, UnjudgedReport
from kb.address import bdf
from kb.logs.timestamps import split
from kb.scan import lines_in
from tools.apart import LONG
from tools.checks.not_understood import KEY as NOT_UNDERSTOOD
from tools.fact import FROM_FILE, WRITTEN_BY, Fact
from tools.inventory.jobs import JobPlace
from tools.inventory.ranges import fold
from tools.remedies import REMEDIES

MOST_SAID, LONGEST_SAID, LONGEST_BRIEF, LONGEST_READ = 8, 600, 1500, 100_000
MOST_FILES, MAX_UNJUDGED = 10, 12
LONGEST_HEAD = 60
"""Characters by which a line is found again in the message that quotes it."""
LONGEST_TAIL, MOST_TAIL = 16_384, 50
"""Characters and lines at the end of a log in which its newest time is looked for."""
ASKING: frozenset[ItemKind] = frozenset({"status", "why", "ask"})
"""Items that want an answer from what is known."""


async def summarise(state: Incident, runtime: Runtime[Ports]) -> dict[str, Any]:
    """Read the item that this turn answers."""
    ports = runtime.context
    case = await read_case(state, ports)
    turn = Turn(
        asked=case.turn.asked,
        hosts=case.turn.hosts,
        named=case.turn.named,
        recalled=case.turn.recalled,
        guide=case.turn.guide,
        began=ports.clock.now().isoformat(),
    )
    if case.kind == "ask" and ports.model and is_left(case.message):
        case, turn = await _meant(case, turn, ports, ports.model)
    second = is_second_look(case)
    if second:
        turn, case = replace(turn, kind="recheck"), replace(case, turn=replace(case.turn, kind="recheck"))
    if not case.looks and not _brings_files(case):
        same = _as_asked(
            replace(turn, priors=case.turn.priors, moves=case.turn.moves, past=case.turn.past), case
        )  # what is said now is what was said then
        return {"turn": same.write(), **await _told_beside(case, ports)}
    turn = turn if case.looks else replace(turn, kind="reply")
    await ports.progress(Progress(case.id, "summarise", "reading the report"))
    pasted, facts, logs, files = await _read_attachments(case, ports)
    facts = [*facts, *(handed_in(case, "", fact) for fact in told_facts(case.item))]
    turn = replace(turn, files=tuple(row.model_dump(mode="json", exclude_defaults=True) for row in files))
    new = _read(case, ports)
    place = await _place_of_job(asks_scheduler(case.brief, new), case, ports)
    named = concerned(case.item, case.brief, new, place.hosts, scheduled=bool(ports.inventory.slurm))
    turn = replace(_named(turn, case, new, named), why_nowhere=place.why if named.unknown_job else "")
    if named.refused or (case.kind == "recheck" and not turn.about):
        turn = _as_asked(turn, case)
    if named.refused and case.report:
        return {"turn": turn.write(), "said": _remember(case), "rounds": 0}
    logs_say = await asyncio.to_thread(understand, pasted, (), case.item.at) if pasted else None
    brief = _understood(case, new, named, logs_say or Brief())
    brief = brief.model_copy(update={"unjudged": _unjudged(case, files)})
    turn = replace(turn, hosts=fold(named.looked_at) or turn.hosts)
    brief, turn = await _guessed(case, brief, kept(case.logs, logs), turn, ports, lost=bool(named.unknown or named.unknown_job))
    await ports.progress(Progress(case.id, "summarise", _in_words(brief)))
    return {
        "turn": turn.write(),
        "brief": brief.model_dump(mode="json"),
        **({"logs": [row.model_dump(mode="json", exclude_defaults=True) for row in kept(case.logs, logs)]} if logs else {}),
        "said": list(case.said) if second else _remember(case),
        "facts": await ports.evidence.put_facts(case.id, merged(case.facts, facts)) if facts else case.snapshot,
        "lifecycle": "open",
        "rounds": 0,
        "walk": {},
        "tier": "history",
    }


async def _told_beside(case: Case, ports: Ports) -> dict[str, Any]:
    """What a question or a wish tells beside what it asks: lines that were pasted with it, and what nobody can judge. It is answered in the
    light of these."""
    if case.item.kind not in ASKING:
        return {}
    _, facts, logs, files = await _read_attachments(case, ports) if case.item.attachments else ("", [], [], [])
    unjudged = _unjudged(case, files)
    found: dict[str, Any] = {}
    if unjudged != case.brief.unjudged:
        found["brief"] = case.brief.model_copy(update={"unjudged": unjudged}).model_dump(mode="json")
    if logs:
        found["logs"] = [row.model_dump(mode="json", exclude_defaults=True) for row in kept(case.logs, logs)]
    if facts:
        found |= {"facts": await ports.evidence.put_facts(case.id, merged(case.facts, facts)), "said": _remember(case)}
    return found


def _unjudged(case: Case, files: Sequence[FileRead]) -> tuple[UnjudgedReport, ...]:
    """What was reported so far that no check can judge, with what this item adds; without what it says to be over. When there is too much the
    oldest stays: it stands for all hosts that it does not name."""
    said, old = case.message, case.brief.unjudged
    if said.intent is Intent.FIXED:
        over = set(said.hosts)
        old = tuple(row for row in old if over and not set(row.hosts) & over)
    new = [UnjudgedReport(text=text, hosts=_hosts_of(text, case)) for text in physical_reports(_told(case))]
    new += [UnjudgedReport(text=row.name, file=True) for row in files if row.unread]
    return tuple(dict.fromkeys((*old, *new)))[:MAX_UNJUDGED]


def _hosts_of(text: str, case: Case) -> tuple[str, ...]:
    """The hosts that a sentence names, else those that its message does; none where it may be about any."""
    return hosts_in(text, case.names).hosts or hosts_in(case.item.text, case.names).hosts


async def _meant(case: Case, turn: Turn, ports: Ports, model: Reasoner) -> tuple[Case, Turn]:
    """What a model makes of a message that the rules did not understand; new facts then look like any other."""
    offered = choices(case.visible, tuple(ports.taxonomy.leaves), tuple(ports.fleet.checks), tuple(REMEDIES))
    guess = await model.intent(case.id, case.item.text, offered)
    if isinstance(guess, Declined):
        return case, replace(turn, without_model=guess.reason)
    said = with_guess(case.message, guess, closed=case.lifecycle == "closed")
    turn = replace(turn, said=said.data()["said"], kind="" if said.kind == case.item.kind else said.kind, asked_model=("intent",))
    item = case.item.model_copy(update={"kind": said.kind, "data": {**case.item.data, **said.data()}})
    return replace(case, stored=cast(Incident, {**case.stored, "item": item.model_dump(mode="json")}), turn=turn), turn


def _brings_files(case: Case) -> bool:
    """Whether somebody handed in a file with a question: then there is news in it, and it is read like any other."""
    return case.kind in ASKING and any(map(is_file, case.item.attachments))


def _read(case: Case, ports: Ports) -> Understanding:
    """What the item says. The names of a command may be groups' names; so may be what somebody answers with a single name."""
    domains = ports.inventory.domains(case.visible)
    new = understand(_told(case), case.names, case.item.at, domains, lenient=case.origin is None or case.origin.customer is None)
    given = str(case.item.data.get("hosts") or group_called(case.item.text.strip().removeprefix("@"), case.groups) or "")
    if case.message.intent is Intent.WIDEN and case.message.group in (ALL, OTHERS) and not given and len(case.visible) <= MOST_UNNAMED:
        return replace(new, hosts=case.visible)
    exact = case.item.kind != "recheck" and not set(new.symptoms) - {"vague"}  # “hosts down” names none
    named = hosts_named(given, case.names, case.groups, domains, strict=exact)
    return replace(new, hosts=named.hosts, unknown_hosts=named.unknown, read_as={}) if named.hosts or named.unknown else new


def _told(case: Case) -> str:
    """What the item tells. Whoever calls a guide by its name reports nothing by it."""
    return "" if case.message.intent is Intent.RUN_GUIDE else case.item.text


async def _read_attachments(case: Case, ports: Ports) -> tuple[str, list[Fact], list[LogDigest], list[FileRead]]:
    """The beginning of what was handed in, the facts read from all of it, the long logs as templates, and the files acknowledged. Reading
    goes on beside the loop."""
    texts: list[str] = []
    facts: list[Fact] = []
    logs: list[LogDigest] = []
    files: list[FileRead] = []
    addresses = addresses_of(case, ports)
    for given in case.item.attachments:
        text = None if given.unread else await ports.evidence.get(given.sha256)
        if text is None:
            files.append(unread(given, given.unread or "gone"))
            continue
        read = await _handed_in(given, text, case, ports)
        if read is None:
            files.append(unread(given, "too_long"))
            continue
        found, left_out = kept_of(read.pasted, (*case.facts, *facts), addresses)
        if not is_file(given):  # a block of a message may be a command, and nobody expects that it is read
            found = tuple(fact for fact in found if fact.key != NOT_UNDERSTOOD or fact.value)
        found = _with_log_end(found, text, case.item.at)
        said = "" if is_file(given) else case.item.text
        facts += [
            handed_in(case, given.name, _written_by(fact.at("", time=case.item.at, sha256=given.sha256), said, case)) for fact in found
        ]
        logs += [read.digest] if read.digest else []
        texts.append(text[:LONGEST_READ])
        files += [acknowledged(given, found, is_odd, left_out, recognised=read.pasted.recognised)] if is_file(given) else []
    return "\n".join(texts), facts, logs, files[:MOST_FILES]


def _written_by(fact: Fact, said: str, case: Case) -> Fact:
    """Return the fact with the host whose line it is, where the line or the words before it say so. What a line says of other hosts is not asked.
    `said`: the message in which it was pasted."""
    line = fact.line.strip()
    if not line:
        return fact
    whole = next((row for row in lines_in(said) if line[:LONGEST_HEAD] in row), line)
    named = hosts_in(head_of(whole), case.names).hosts
    name = named[0] if len(named) == 1 else "" if named else writer_of(whole)
    return replace(fact, attrs={**fact.attrs, WRITTEN_BY: name}) if name else fact


def _with_log_end(facts: Sequence[Fact], text: str, at: datetime) -> tuple[Fact, ...]:
    """Return the facts of a log; where its newest line is later than the report, events are told when that was."""
    times = [moment for line in lines_in(text[-LONGEST_TAIL:])[-MOST_TAIL:] if (moment := split(line, at).time)]
    newest = max((moment for moment in times if moment.tzinfo), default=at)
    if newest <= at:
        return tuple(facts)
    end = {LOG_END: newest.isoformat()}
    return tuple(replace(fact, attrs={**fact.attrs, **end}) if fact.key.startswith(MACHINE_EVENTS) else fact for fact in facts)


def handed_in(case: Case, name: str, fact: Fact) -> Fact:
    """Return a fact of a text that somebody handed in, with who did: the customer, or else one of our own people. The text's own word is not asked."""
    origin = case.origin
    opens = not case.done_items and origin is not None and (origin.customer is not None or bool(origin.ticket))
    theirs = opens or case.item.data.get(SIDE) == CUSTOMER
    attrs = {key: value for key, value in fact.attrs.items() if key != FROM_FILE}
    source = {FROM_FILE: {"path": name[:LONGEST_NAME], "by": CUSTOMER}} if theirs else {}
    return replace(fact, attrs={**attrs, **source}) if source or FROM_FILE in fact.attrs else fact


def addresses_of(case: Case, ports: Ports) -> frozenset[str]:
    """Every place at which a host of the incident may have a GPU, by the profiles of all hosts that it may speak of and what was listed;
    none where one of them has no profile."""
    tables = [ports.skus.get(ports.inventory.hosts[host].sku) for host in case.visible]
    if not tables or not all(tables):
        return frozenset()
    listed = (str(fact.value) for fact in case.facts if fact.key == "gpu.bdf" and fact.value)
    return frozenset(filter(None, map(bdf, (*(address for sku in tables if sku for address in sku.bus), *listed))))


async def _handed_in(given: Attachment, text: str, case: Case, ports: Ports) -> HandedIn | None:
    at = case.item.at
    if ports.reader is not None and len(text) >= LONG:
        return await ports.reader(given.name, given.sha256, text, at)
    return await asyncio.to_thread(read_handed_in, given.name, given.sha256, text, at, ports.fleet.checks)


def _named(turn: Turn, case: Case, new: Understanding, named: Concerned) -> Turn:
    """The turn with what its item names and asks. Hosts of an option (`diagnose --hosts`) are no question how they are."""
    text = case.item.text
    return replace(
        turn,
        about=fold(named.looked_at or hosts_asked_about(text, new)),
        question=(bool(named.looked_at) and case.item.kind != "mention") or asks_how_they_are(text),
        only=bool(named.looked_at),
        unknown=named.unknown,
        read_as=new.read_as,
        unknown_job=named.unknown_job,
        refused=named.refused,
    )


def _as_asked(turn: Turn, case: Case) -> Turn:
    """The turn about what was asked before; a look at a few hosts in between was about them alone."""
    return turn if case.turn.only else replace(turn, about=case.turn.about, question=case.turn.question)


def _understood(case: Case, new: Understanding, named: Concerned, logs: Understanding | Brief) -> Brief:
    """The brief so far with what this item adds. A log names many hosts that nobody complains about, so it names none."""
    old = case.brief
    return Brief(
        text="\n".join(filter(None, (old.text, _told(case))))[-LONGEST_BRIEF:],
        symptoms=_clear(_union(old.symptoms, new.symptoms, logs.symptoms)),
        signatures=_union(old.signatures, new.signatures, logs.signatures)[:12],
        hosts=tuple(host for host in named.hosts if host in case.visible),
        unknown_hosts=named.unknown[:12],
        job=named.job,
        since=old.since or new.since,
        until=new.until or old.until,
    )


async def _asked_of_job(job: str, case: Case, ports: Ports) -> JobPlace:
    """In an incident of a customer's, one that is not theirs takes as long as one that is not there."""
    if ports.own_job is None or not (case.origin and case.origin.tenant):
        return await ports.job_place(job)
    return await ports.own_job(job, lambda hosts: bool(hosts_in(" ".join(hosts), case.visible).hosts))


async def _place_of_job(job: str, case: Case, ports: Ports) -> JobPlace:
    """The job's hosts, as far as the place of the incident may see them."""
    if not job:
        return JobPlace()
    place = await _asked_of_job(job, case, ports)
    seen = hosts_in(" ".join(place.hosts), case.visible).hosts
    return JobPlace(seen, "other_hosts" if place.hosts and not seen else place.why)


def _union(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for part in parts for value in part))


def _clear(symptoms: tuple[str, ...]) -> tuple[str, ...]:
    """Nothing is vague once something is said."""
    return tuple(symptom for symptom in symptoms if symptom != "vague") or symptoms


async def _guessed(case: Case, brief: Brief, logs: Sequence[LogDigest], turn: Turn, ports: Ports, *, lost: bool) -> tuple[Brief, Turn]:
    """A model reads only what the rules could not, and only names hosts that may be looked at; where people named others, or a job that
    nobody can place (`lost`), it guesses none. Which causes it finds likely orders the looks."""
    if ports.model is None:
        return brief, replace(turn, without_model="no model is configured")
    if not case.item.text.strip() or lost or (set(brief.symptoms) - {"vague"} and brief.hosts):
        return brief, turn
    material = await material_of(brief, logs, case, ports)
    sounds = {label: ports.taxonomy.title(label) for label in likely_by_words(ports.taxonomy, brief, MOST_OFFERED)}
    answer = await ports.model.read(case.id, material, case.visible, sounds)
    if isinstance(answer, Declined):
        return brief, replace(turn, without_model=answer.reason)
    asked = replace(turn, asked_model=(*turn.asked_model, "read"), reading=dict(answer.causes))
    return _with_guess(brief, answer, case), asked


def _with_guess(brief: Brief, guess: Reading, case: Case) -> Brief:
    since, until = window("; ".join(guess.times), case.item.at) if guess.times and not brief.since else (None, None)
    return brief.model_copy(
        update={
            "symptoms": _clear(_union(brief.symptoms, guess.symptoms)),
            "hosts": brief.hosts or tuple(host for host in guess.hosts if host in case.visible),
            "job": brief.job or guess.job,
            "signatures": _union(brief.signatures, guess.signatures)[:12],
            "since": brief.since or since,
            "until": brief.until or until,
        }
    )


def _remember(case: Case) -> list[Mapping[str, Any]]:
    item = case.item
    row = {"user": item.user, "text": item.text[:LONGEST_SAID], "at": item.at.isoformat()}
    attached = [given.model_dump(mode="json", exclude_defaults=True, exclude={"size"}) for given in item.attachments]
    said = [*case.said, {**row, "attachments": attached}]
    return said if len(said) <= MOST_SAID else [said[0], *said[-(MOST_SAID - 1) :]]


def _in_words(brief: Brief) -> str:
    parts = [f"hosts {', '.join(brief.hosts[:6])}" if brief.hosts else "no host known" if brief.unknown_hosts else "no host named"]
    parts += [f"job {brief.job}"] if brief.job else []
    parts += [f"symptoms {', '.join(brief.symptoms)}"] if brief.symptoms else []
    return "; ".join(parts)


def after_summarise(state: Incident) -> str:
    """Items that only want an answer go straight to it, and so do those that name only what nobody knows."""
    turn = state.get("turn", {})
    refused = turn.get("refused") and state.get("report")
    return "plan" if (turn.get("kind") or state["item"]["kind"]) in DIAGNOSED and not refused else "conclude"
