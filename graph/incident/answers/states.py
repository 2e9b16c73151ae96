"""How a host is, and how several are: from what was read, with its age. What nobody looked at is said to be so. Pure."""

from collections.abc import Sequence

from graph.incident.answers.known import (
    Asked,
    HostKnown,
    ago,
    cited,
    clean,
    looked_with,
    meant,
    of_host,
    offer,
    quoted,
    rests_on,
    say,
    shown_by,
    sure,
    unknown_said,
    where,
)
from graph.incident.answers.unproven import CLEARED, told
from graph.incident.concluded import Concluded
from tools.inventory.ranges import fold

MOST_QUOTED, MOST_APART = 3, 5
NOTHING_READ = "nothing abnormal in what I read"
NOT_ALL_LOOKED_AT = "nothing abnormal in what could be looked at, but not all was"


async def host_state(asked: Asked) -> Concluded:
    """One host in full; of several each in a line."""
    hosts = meant(asked).hosts
    if len(hosts) != 1:
        return _several(asked, hosts)
    known = of_host(asked, hosts[0])
    if known.dark:
        against = told((*known.unproven, *known.unplaced))
        return say(asked, [*unknown_said(asked), not_looked(asked, known), f"{known.host}: {against}." if against else ""])
    return say(asked, [*unknown_said(asked), *_in_full(asked, known), offer(asked, hosts)])


async def group_state(asked: Asked) -> Concluded:
    """Several hosts, those with something to say first."""
    return _several(asked, meant(asked).hosts)


def not_looked(asked: Asked, known: HostKnown) -> str:
    """Why nothing is known of a host, with the offer."""
    if known.blind:
        why, found = known.blind[0][1], "".join(f"{asked.title(row.label)}, {sure(row)}; " for row in known.causes[:1])
        return f"{known.host}: {found}could not be looked at ({clean(why, 80)}), tried {ago(known.read, asked.at)}. Say `recheck {known.host}` to try again."
    return f"{known.host}: not looked at. Say `recheck {known.host}` and I look."


def _in_full(asked: Asked, known: HostKnown) -> list[str]:
    lines = [f"{known.host}: {summary(asked, known, quoted_below=True)}."]
    if known.causes or known.shows:
        lines += [f"Also {told(against)}."] if (against := (*known.unproven, *known.unplaced)) else []
    if any(row.reported for row in (*known.unproven, *known.unplaced)):
        lines.append(CLEARED)
    device = asked.said.device
    for row in (*known.causes, *known.shows)[:2]:
        own = [line for line in row.evidence if line.host in (known.host, "")]
        lines += [quoted(asked, line) for line in own[:MOST_QUOTED]]
    if not known.causes and not known.shows:
        odd = [fact for fact in known.odd if not device or fact.device in (device, None, "")] or list(known.odd)
        lines += [shown_by(asked, fact) for fact in odd[:MOST_QUOTED]]
    if known.blind:
        lines.append(f"Could not look with {', '.join(check for check, _ in known.blind[:6])}: {clean(known.blind[0][1], 80)}.")
    return lines


def summary(asked: Asked, known: HostKnown, *, quoted_below: bool = False) -> str:
    """One host in a clause, with how much was looked at and when; and what a cause rests on, unless its lines stand below."""
    looked, by = looked_with(asked, known), (lambda row: "") if quoted_below else cited
    if known.causes:
        found = "; ".join(f"{asked.title(row.label)} ({where(row)}), {sure(row)}{by(row)}" for row in known.causes[:2])
        return f"{found}; {looked}"
    if known.shows:
        return f"{looked}, nothing wrong with the machine itself; it shows {asked.title(known.shows[0].label)}, {sure(known.shows[0])}{by(known.shows[0])}"
    but = f"; but {told(against)}" if (against := (*known.unproven, *known.unplaced)) else ""
    if known.odd:
        return f"{looked}: something is abnormal and no cause is proven {'' if quoted_below else f' ({rests_on(known.odd)})'}{but}"
    if not known.whole:
        return f"{looked}: {NOT_ALL_LOOKED_AT}{but}"
    return f"{looked}, {NOTHING_READ}{but}" if but else f"{looked}, nothing abnormal"


def _several(asked: Asked, hosts: Sequence[str]) -> Concluded:
    if not hosts:
        nothing = "" if asked.said.unknown_hosts else "I have looked at no machine yet. Name hosts, for example `recheck gpu-[001-004]`."
        return say(asked, [*unknown_said(asked), nothing or "I looked at nothing."])
    known = [of_host(asked, host) for host in hosts]
    sick = [row for row in known if row.causes and not row.dark]
    odd = [row for row in known if not row.causes and (row.odd or row.shows or row.unproven) and not row.dark]
    rest = [row for row in known if row not in sick and row not in odd and not row.dark]
    partly, well = [row for row in rest if not row.whole], [row for row in rest if row.whole]
    dark = [row for row in known if row.dark]
    head = f"{len(hosts)} hosts: " if len(hosts) > 1 else ""
    parts = [
        f"{len(sick)} with a fault" if sick else "",
        f"{len(odd)} with something to say" if odd else "",
        f"{len(well)} {'without a finding of their own' if well[0].unplaced else 'well'}" if well else "",
    ]
    shut, dark = [row for row in dark if row.blind], [row for row in dark if not row.blind]
    parts += [f"{len(partly)} not wholly looked at" if partly else ""]
    parts += [f"{len(shut)} that could not be looked at" if shut else "", f"{len(dark)} not looked at" if dark else ""]
    lines = [f"{head}{', '.join(filter(None, parts))}."] if len(list(filter(None, parts))) > 1 else []
    lines += [f"{row.host}: {summary(asked, row)}." for row in (*sick, *odd)[:MOST_APART]]
    lines += [not_looked(asked, row) for row in shut[:MOST_APART]]
    lines += [f"{fold([row.host for row in shut[MOST_APART:]])}: could not be looked at either."] if len(shut) > MOST_APART else []
    lines += [f"… and {len(sick) + len(odd) - MOST_APART} more."] if len(sick) + len(odd) > MOST_APART else []
    lines += [f"{fold([row.host for row in well])}: {summary(asked, well[0])}."] if well else []
    lines += [f"{fold([row.host for row in partly])}: {summary(asked, partly[0])}."] if partly else []
    lines += [f"{fold([row.host for row in dark])}: not looked at. Say `recheck {fold([row.host for row in dark])}`."] if dark else []
    lines += [f"{row.host}: {told(row.unproven)}." for row in dark if row.unproven][:MOST_APART]
    return say(asked, [*unknown_said(asked), *lines, offer(asked, [row.host for row in known if not row.dark])])
