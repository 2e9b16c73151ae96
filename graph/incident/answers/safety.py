"""Whether hosts may be used or changed now. Three answers: no with the reason, cannot tell with the reason, and yes as far as was read. Pure."""

import re
from collections.abc import Mapping, Sequence

from graph.incident.answers.known import (
    Asked,
    HostKnown,
    ago,
    cited,
    clean,
    looked_with,
    meant,
    name_of,
    of_host,
    offer,
    say,
    unknown_said,
    where,
)
from graph.incident.answers.unproven import CLEARED, told, unproven
from graph.incident.concluded import Concluded
from graph.ladders.ends import describe
from graph.state import Ladder
from tools.inventory.ranges import fold
from tools.remedies import REMEDIES
from tools.remedies.row import Remedy

SAFE, NOT_SAFE, UNSURE, FAILS_AGAIN = "Yes, by all that I see.", "No, not on", "I cannot tell", "No, it would fail again:"
"""What an answer begins with."""
NO_YES_OR_NO = "I cannot say yes or no to that. What I know:"
"""What the answer to a question begins with of which not every word was read."""
LONGEST = 400
"""Characters of a message in which a job is looked for."""
_JOB = re.compile(r"\b(?:jobs?|runs?|rerun|restart\w*|resubmit\w*|submit|launch|relaunch|start|resume|train\w*)\b", re.IGNORECASE)
TOO_OLD = 1800.0
"""Seconds after which what was read says little about whether something is safe."""


async def safe_to(asked: Asked) -> Concluded:
    """Whether to use the hosts (to run a job there again), or to change them by a remedy that the message names."""
    named = meant(asked)
    if asked.said.remedy in REMEDIES:
        return _to_change(asked, REMEDIES[asked.said.remedy], named.hosts)
    hosts = named.hosts if named.named else asked.case.hosts or asked.seen
    if not hosts:
        return say(asked, [*unknown_said(asked), f"{UNSURE}: I have looked at no machine yet. Name hosts, or say `recheck HOSTS`."])
    return say(asked, [*unknown_said(asked), *_to_use(asked, hosts), offer(asked, hosts)])


def _to_use(asked: Asked, hosts: Sequence[str]) -> list[str]:
    known = [of_host(asked, host) for host in hosts]
    bad = {row.host: why for row in known if (why := _bad(asked, row))}
    job = [row for row in unproven(asked.case, asked.now) if row.of_job] if _of_the_job(asked) else []
    doubt = {row.host: why for row in known if row.host not in bad and (why := _doubt(asked, row))}
    well = [row.host for row in known if row.host not in bad and row.host not in doubt]
    first = next((row for row in known if row.host in well), known[0])
    nothing = f"{fold(well)}: nothing abnormal in {looked_with(asked, first)}." if well else ""
    if asked.said.predicate != "usable":
        about = f"• The job: {told(job) or unsure}." if job or (unsure := _undecided(asked)) else ""
        lines = [*(f"• {host}: {why}" for host, why in list((bad | doubt).items())[:3]), about, nothing, *_ended_by(asked)]
        return [NO_YES_OR_NO, *lines]
    if bad:
        return [f"{NOT_SAFE} {fold(bad)}:", *(f"• {host}: {why}" for host, why in list(bad.items())[:3]), nothing]
    if doubt:
        reported = any(one.reported for row in known for one in (*row.unproven, *row.unplaced))
        return [f"{UNSURE} for {fold(doubt)}: {next(iter(doubt.values()))}", *_more_doubts(doubt), nothing, CLEARED if reported else ""]
    mended = [fix for row in known for fix in _passed(asked, row.host)]
    unsure = "" if mended else _undecided(asked)  # what the job's old log shows is what was mended
    if job or unsure:
        return [f"{UNSURE}: {told(job) or unsure}.", nothing]
    again = [f"Mended: {describe(fix, asked.title(fix.label))}." for fix in mended[:3]]
    return [*_the_job(asked, nothing), *again, "" if _fails_again(asked) else "What was not checked I cannot see; the decision is yours."]


def _of_the_job(asked: Asked) -> bool:
    """Whether the job is meant, alone or beside hosts."""
    return not meant(asked).named or bool(_JOB.search(asked.said.text[:LONGEST]))


def _undecided(asked: Asked) -> str:
    """Why the last look could say neither a cause nor that there is none, where the job is meant; empty where it could."""
    reasons = asked.now.why_unsure if not asked.roots and _of_the_job(asked) else ()
    return reasons[0] if reasons else ""


def _more_doubts(doubt: Mapping[str, str]) -> list[str]:
    """What is to be said of other hosts and is something else."""
    first, *others = doubt.items()
    return [f"• {host}: {why}" for host, why in others if why != first[1]][:2]


def _the_job(asked: Asked, nothing: str) -> list[str]:
    """Nothing speaks against the machines: what the job itself ended by. `nothing` says that they were read."""
    roots = [row for row in asked.roots if not row.hosts]
    ended = [asked.now.lens.taxonomy.leaf(row.label) for row in roots]
    if not ended:
        return [f"{SAFE} {nothing}"]
    if _fails_again(asked):
        return [
            f"{FAILS_AGAIN} {ended[0].title}{cited(roots[0])}, which is no fault of a machine. {ended[0].next_step}",
            nothing,
        ]
    return [
        f"{SAFE} {nothing}",
        f"What ended the job is no fault of a machine: {ended[0].title}{cited(roots[0])}. {ended[0].next_step}",
    ]


def _ended_by(asked: Asked) -> list[str]:
    """Causes that are no fault of a machine."""
    return [f"• {asked.title(row.label)}{cited(row)}, which is no fault of a machine." for row in asked.roots if not row.hosts][:2]


def _fails_again(asked: Asked) -> bool:
    """Whether a job is meant, and what ended it would end it again. Machines that are named without one may work for others."""
    lasts = any(not asked.now.lens.taxonomy.leaf(row.label).transient for row in asked.roots if not row.hosts)
    return lasts and not (meant(asked).named and not _JOB.search(asked.said.text[:LONGEST]))


def _bad(asked: Asked, row: HostKnown) -> str:
    """Why a host should not be used; empty where nothing says so."""
    own = [ladder for ladder in asked.case.ladders if ladder.target == row.host]
    held = [ladder for ladder in own if ladder.drained or (ladder.open and ladder not in _passed(asked, row.host))]
    causes = [cause for cause in row.causes if row.host in cause.hosts]
    against = f". Also {told(row.unproven)}" if row.unproven else ""
    if causes:
        drained = "; it is drained" if any(ladder.drained for ladder in held) else ""
        return f"{asked.title(causes[0].label)} ({where(causes[0])}){cited(causes[0])}, read {ago(row.read, asked.at)}{drained}{against}"
    return f"{describe(held[0], asked.title(held[0].label))}{against}" if held else ""


def _passed(asked: Asked, host: str) -> list[Ladder]:
    """The fixes of a host that is in service whose proof passed, and that are only to be proved once more."""
    rows = [row for row in asked.case.ladders if host in row.target.split(",") and row.open]
    return [row for row in rows if row.waiting_for == "proof" and row.proven and not row.drained]


def _doubt(asked: Asked, row: HostKnown) -> str:
    """Why nothing can be told of a host; empty where something can."""
    if unread := [fix for fix in _passed(asked, row.host) if fix.since and (row.read is None or row.read < fix.since)]:
        return f"{asked.title(unread[0].label)} was mended on {row.host}, and it was not read since. Say `recheck {row.host}`."
    if row.dark:
        return _not_seen(row)
    if row.unproven:
        return f"{told(row.unproven)}. No look has shown its cause on {row.host}."
    if row.unplaced:
        return f"{told(row.unplaced)}. Which host that is of I do not know."
    if row.odd:
        return f"{row.host} shows something that no cause explains: {clean(row.odd[0].line or row.odd[0].key, 100)} ({name_of(row.odd[0].check)})."
    if not row.whole:
        check, why = row.blind[0] if row.blind else ("some checks", "were not asked")
        return f"not all of {row.host} could be looked at ({name_of(check)}: {clean(why, 60)})."
    if row.read is None or (asked.at - row.read).total_seconds() > TOO_OLD:
        return f"{row.host} was read {ago(row.read, asked.at)}, which is too old. Say `recheck {row.host}`."
    return ""


def _not_seen(row: HostKnown) -> str:
    """Why a host that no look has shown cannot be judged, with what people handed in of it."""
    against = f", and {told(row.unproven)}" if row.unproven else ""
    if row.blind:
        return f"{row.host} could not be looked at ({clean(row.blind[0][1], 80)}){against}. Say `recheck {row.host}` to try again."
    return f"nobody looked at {row.host}{against}. Say `recheck {row.host}`."


def _to_change(asked: Asked, remedy: Remedy, hosts: Sequence[str]) -> Concluded:
    """What a remedy would cost these hosts now, and whether anything found asks for it."""
    if not hosts:
        return say(asked, [*unknown_said(asked), "I cannot tell: name the host, for example “is it safe to reboot gpu-001?”."])
    wanted = [row for row in asked.case.ladders if row.target in hosts and row.open and any(rung.remedy == remedy.id for rung in row.rungs)]
    asks = f"Nothing that I found on {fold(hosts)} asks for it."
    if wanted:
        asks = f"It is part of a fix: {describe(wanted[0], asked.title(wanted[0].label))}."
    understood = asked.said.predicate == "changeable"
    lines = [
        *([] if understood else [NO_YES_OR_NO]),
        _cost(asked, remedy, hosts) if understood else running_jobs(asked, hosts),
        f"It affects {remedy.blast}.",
        "It needs the node drained and without jobs first." if remedy.needs else "",
    ]
    return say(asked, [*unknown_said(asked), *lines, asks, "RackMedic does it only by a card that somebody approves.", offer(asked, hosts)])


def _cost(asked: Asked, remedy: Remedy, hosts: Sequence[str]) -> str:
    jobs = {host: names for host in hosts if (names := _jobs(asked, host))}
    unseen = [host for host in hosts if not {"procs", "sched"} & set(of_host(asked, host).looked)]
    if jobs and remedy.id != "drain_node" and remedy.risk != "intrusive":
        return f"No, not now: jobs hold GPUs: {'; '.join(f'{host} (job {names[0]})' for host, names in list(jobs.items())[:3])} (procs)."
    seen_by = _seen_by(asked, hosts)
    if unseen:
        return f"I cannot tell: whether jobs run on {fold(unseen)} was not seen. Say `recheck {fold(unseen)}`."
    return f"By all that I see nothing on {fold(hosts)} speaks against it: {'running jobs go on' if jobs else 'no job holds a GPU there'} ({seen_by})."


def running_jobs(asked: Asked, hosts: Sequence[str]) -> str:
    """Which jobs hold GPUs, host by host, without a judgement."""
    unseen = [host for host in hosts if not {"procs", "sched"} & set(of_host(asked, host).looked)]
    jobs = {host: names for host in hosts if host not in unseen and (names := _jobs(asked, host))}
    free = [host for host in hosts if host not in unseen and host not in jobs]
    parts = [f"{host}: job {names[0]} holds GPUs" for host, names in list(jobs.items())[:3]]
    parts += [f"{fold(free)}: no job holds a GPU"] if free else []
    parts += [f"{fold(unseen)}: whether jobs run was not seen"] if unseen else []
    seen_by = _seen_by(asked, hosts)
    return f"• {'; '.join(parts)}{f' ({seen_by})' if seen_by else ''}."


def _seen_by(asked: Asked, hosts: Sequence[str]) -> str:
    """Which checks saw whether jobs run there."""
    return ", ".join(check for check in ("procs", "sched") if any(check in of_host(asked, host).looked for host in hosts))


def _jobs(asked: Asked, host: str) -> list[str]:
    """Jobs that held GPUs of a host when it was read."""
    held = (fact for fact in asked.case.facts if fact.host == host and fact.key == "proc.gpu_memory" and not fact.stale)
    return sorted({str(fact.attrs["job"]) for fact in held if fact.attrs.get("job")})
