"""What a check printed, as it is kept: bounded and redacted as everywhere. Touches nothing but the evidence store."""

from collections.abc import Sequence, Set

from graph.deciding import deciding_numbers
from graph.incident.answers.known import Asked, ago, clean, meant, name_of, offer, read_at, say, unknown_said
from graph.incident.answers.pictures import bandwidth, measured
from graph.incident.concluded import Concluded
from graph.reading.numbers import USUAL, number_of
from graph.report import ShownOutput, ShownPicture
from kb.scan import lines_in
from tools.heat import Heat, in_words
from tools.inventory.ranges import fold

MOST_LINES, MOST_HOSTS, MOST_COMMANDS = 12, 2, 6
LOGS = frozenset({"dmesg", "joblog", "sysd", "ipmi"})
"""Outputs whose end tells more than their beginning."""
MOST_READ = 200_000
"""Characters of an output that are looked through for its telling lines."""


async def show_output(asked: Asked) -> Concluded:
    """The lines that a check printed on a host; as a file too where one is wanted or lines are left out here. Where no check or host is named, what
    decided says which."""
    if asked.said.form == "picture" and (key := number_of(asked.said.text, asked.said.check, _deciding(asked))):
        return _pictured(asked, key)
    pairs = _wanted(asked)
    if not pairs:
        return say(asked, [*unknown_said(asked), _which(asked)])
    lines, files = unknown_said(asked), list[ShownOutput]()
    for host, check in pairs[:MOST_HOSTS]:
        more, own = await _shown(asked, host, check, room=MOST_LINES if len(pairs) == 1 else MOST_LINES // 2)
        lines, files = [*lines, *more], [*files, *own]
    left = [host for host, _ in pairs[MOST_HOSTS:]]
    lines += [f"The same for {fold(left)}: ask for one host at a time."] if left else []
    lines += (
        ["A picture would say no more, so it comes as a file. I draw numbers of GPUs, such as temperatures."]
        if asked.said.form == "picture" and files
        else []
    )
    return say(asked, [*lines, offer(asked, [host for host, _ in pairs[:MOST_HOSTS]])], most=2 * MOST_LINES, shown=tuple(files))


def _deciding(asked: Asked) -> str:
    """The number of GPUs that decided, else the usual one."""
    return next(deciding_numbers(asked.roots), USUAL)


def _pictured(asked: Asked, key: str) -> Concluded:
    """A number of every GPU: in a line here, and to be drawn. Hosts that were not named are all that were looked at, to compare."""
    here = meant(asked)
    hosts = here.hosts if here.named else asked.seen
    heat = Heat(key, hosts)
    heat.add(asked.case.facts)
    if heat.spread() is None and key == "nccl.pair_busbw" and measured(asked, tuple(hosts)).curves:
        return bandwidth(asked)  # not pair by pair, but by the size of messages
    if heat.spread() is None:
        check = next((row for row in asked.now.lens.checks.values() if key in row.establishes), None)
        exclusive = check is not None and check.exclusive
        how = (
            f"Say `run {check.id} on {fold(hosts)}` to put it up for decision."
            if check and exclusive
            else f"Say `recheck {fold(hosts)}` and I look."
        )
        return say(
            asked, [*unknown_said(asked), f"No {heat.says} was read of {fold(hosts) or 'any host'}, so there is nothing to draw.", how]
        )
    known = heat.known()
    blind = [host for host in hosts if host not in set(known)]
    ages = [at for host in known if (at := read_at(asked, host))]
    lines = [
        *unknown_said(asked),
        f"{clean(in_words(heat), 300)} · {_read_with(asked, key)} · read {ago(min(ages, default=None), asked.at)}; as a picture:",
        f"Not known: {fold(blind)}." if blind else "",
        offer(asked, known),
    ]
    return say(asked, lines, pictures=(ShownPicture(key=key, hosts=tuple(hosts)),))


def _read_with(asked: Asked, key: str) -> str:
    """The checks that a number of GPUs was read with."""
    return ", ".join(dict.fromkeys(name_of(fact.check) for fact in asked.case.facts if fact.key == key))


def _wanted(asked: Asked) -> list[tuple[str, str]]:
    """(host, check) pairs; the decisive ones where the message names no check."""
    here = meant(asked)
    if asked.said.check:
        return [(host, asked.said.check) for host in here.hosts]
    cited = [(line.host, line.check) for row in asked.roots for line in row.evidence if line.host]
    if here.named:
        of_theirs = [pair for pair in cited if pair[0] in here.hosts]
        odd = [(fact.host, fact.check) for fact in asked.now.odd if fact.host in here.hosts]
        return list(dict.fromkeys((*of_theirs, *odd)))[:1]
    return list(dict.fromkeys(cited))[:1]


def _which(asked: Asked) -> str:
    if asked.said.unknown_hosts:
        return "I can show no output of those."
    looked = sorted({fact.check for fact in asked.case.facts if fact.host and fact.sha256})
    names = ", ".join(name_of(check) for check in looked[:12])
    return (
        f"Which output do you want? I have {names}. For example “show kernel log of {asked.seen[0]}”."
        if looked
        else "I have looked at nothing yet."
    )


async def _shown(asked: Asked, host: str, check: str, room: int) -> tuple[list[str], list[ShownOutput]]:
    """A head line and the telling lines of an output, and its files where it is not all here or files are wanted."""
    digests = list(dict.fromkeys(fact.sha256 for fact in asked.case.facts if (fact.host, fact.check) == (host, check) and fact.sha256))
    texts = _telling_texts(
        [(sha, text) for sha in digests[:MOST_COMMANDS] if (text := await asked.ports.evidence.get(sha)) is not None], _boots(asked, host)
    )
    why = asked.now.coverage.blind.get((host, check), "")
    if not texts:
        return [_nothing(asked, host, check, why, kept=not digests)], []
    head = f"{host} · {name_of(check)} · read {ago(read_at(asked, host, check), asked.at)}"
    lines = [line for _, text in texts for line in lines_in(text[:MOST_READ]) if line.strip()]
    telling = _telling(lines, [fact.line for fact in asked.now.odd if (fact.host, fact.check) == (host, check)], room, newest=check in LOGS)
    count = f"{len(telling)} of {len(lines)} lines" if len(telling) < len(lines) else f"{len(lines)} line{'s' * (len(lines) != 1)}"
    filed = texts if asked.said.form or len(telling) < len(lines) else []
    files = [ShownOutput(name=_file_name(host, check, n), sha256=sha) for n, (sha, _) in enumerate(filed)]
    whole = "; all of it as a file" if files else ""
    blind = [f"A part could not be looked at: {clean(why, 100)}."] if why else []
    return [f"{head}: {count}{whole}", *(f"  {clean(line)}" for line in telling), *blind], files


def _boots(asked: Asked, host: str) -> set[str]:
    """The ids by which this host's boots are told apart."""
    return {
        fact.boot_id or str(fact.value) for fact in asked.case.facts if fact.host == host and (fact.boot_id or fact.key == "host.boot_id")
    }


def _telling_texts(texts: Sequence[tuple[str, str]], boots: Set[str]) -> list[tuple[str, str]]:
    """Without a boot's id, which a check reads for itself alone; with it where it printed nothing else."""
    return [(sha, text) for sha, text in texts if text.strip() not in boots] or list(texts)


def _nothing(asked: Asked, host: str, check: str, why: str, *, kept: bool) -> str:
    if why:
        return f"{host} · {name_of(check)}: could not look: {clean(why, 100)}. Say `recheck {host}` to try again."
    if (host, check) in asked.now.coverage.skipped:
        return f"{host} · {name_of(check)}: was not run: {clean(asked.now.coverage.skipped[host, check], 120)}."
    if any((fact.host, fact.check) == (host, check) for fact in asked.case.facts):
        at = ago(read_at(asked, host, check), asked.at)
        return f"{host} · {name_of(check)} · read {at}: {'it printed nothing' if kept else 'its output is no longer kept'}."
    row = asked.now.lens.checks.get(check)
    how = f"Say `run {check} on {host}` to put it up for decision." if row and row.exclusive else f"Say `recheck {host}` and I look."
    return f"{host} · {name_of(check)}: not looked at. {how}"


def _telling(lines: Sequence[str], odd: Sequence[str], room: int, *, newest: bool) -> list[str]:
    """What is abnormal first with its neighbours, else the end of a log and the beginning of a table: what fits, in order."""
    if len(lines) <= room:
        return list(lines)
    marks = {" ".join(line.split()) for line in odd if line}
    at = [n for n, line in enumerate(lines) if " ".join(line.split()) in marks][: room // 2]
    chosen: dict[int, None] = dict.fromkeys(at)
    for n in (near for one in at for near in (one - 1, one + 1)):
        if 0 <= n < len(lines) and len(chosen) < room:
            chosen[n] = None
    for n in reversed(range(len(lines))) if newest else range(len(lines)):
        if len(chosen) >= room:
            break
        chosen[n] = None
    return [lines[n] for n in sorted(chosen)]


def _file_name(host: str, check: str, number: int) -> str:
    return f"{host}-{check}{f'-{number + 1}' if number else ''}.txt"
