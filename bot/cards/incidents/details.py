"""Show all details of a diagnosis: evidence, ruled-out causes with reasons, failed looks, logs, cost, the walk, hardware ids.
Made from the stored incident as it is when it is asked for; what does not fit is counted, never left out silently.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.incidents import rows
from bot.cards.incidents.handoff import timeline
from bot.cards.incidents.rows import Titles
from bot.cards.text import Line, Part, bold, code, italic
from bot.refusal import Refusal
from graph.guided import every_line
from graph.reading import counts
from graph.report import PlannedAction, Report
from graph.rows import IncidentRows
from graph.state import Hypothesis, Stats
from tools.fact import Fact, Status
from tools.remedies import REMEDIES
from tools.remedies.row import fill

CAUSES, EVIDENCE, MOST_OF_IT = 6, 2400, 4800
"""Causes whose evidence is shown; how long that of one may be, and that of all together."""
WALKED, MOST_HOSTS, DIGESTS, MOMENTS = 12, 8, 8, 8
"""How many steps of the walk, boots, digests and moments are shown."""
PART = 1300
"""How long any other part may be."""


class NothingYet(Refusal):
    """There is nothing to show."""

    def __init__(self) -> None:
        super().__init__("Nothing is concluded here yet, so there are no details. The card above says what is being looked at.")


MAX_DEVICES, NOT_READ = 8, ""
_HCA = (("PCI", "ib.bdf"), ("GUID", "ib.guid"), ("leaf switch", "fabric.leaf"), ("switch port", NOT_READ))
_GPU = (
    ("model", "gpu.product"),
    ("part", "gpu.part"),
    ("serial", "gpu.serial"),
    ("PCI", "gpu.bdf"),
    ("module", "gpu.module"),
    ("chassis slot", NOT_READ),
)
IDS: Mapping[str, Sequence[tuple[str, str]]] = {"gpu": _GPU, "mlx5_": _HCA, "ib": _HCA}
"""Kind of device → what it is called on site and the key of the fact."""
WENT_ON = "The incident went on after this card; this is how it stands now."


def render(incident: IncidentRows, titles: Titles, boots: Mapping[str, str], shown: str, facts: Sequence[Fact] = ()) -> Block:
    """The dialog. `shown` is the report under which it was asked for: the incident may have gone on since. Raises NothingYet."""
    report = incident.report
    if report is None:
        raise NothingYet
    later = [blocks.context((WENT_ON,))] if shown != report.item else []
    return blocks.page(
        "Details",
        [
            blocks.section((bold(report.headline or report.reply.partition("\n")[0] or "Not diagnosed"),)),
            *later,
            *_causes(report, titles),
            *_part("On site", hardware(report.root_causes, facts)),
            *_part("Ruled out", _ruled_out(incident, report, titles)),
            *_part("Not decided", _undecided(incident, titles)),
            *_part("Could not look", rows.could_not_look(report.could_not_look, len(report.could_not_look))),
            *_quoted("In the logs", rows.logs(report.logs)),
            *_quoted("Guide", every_line(report.guide) if report.guide else []),
            *_part("Advice", [(report.next_step,)] if report.next_step else []),
            *_part("By hand", [(f"• {row}",) for row in report.by_hand]),
            *_part("Looked at", _cost(incident.stats, report)),
            *_quoted("The way there", _walk(incident, titles)),
            *_quoted("What happened", _happened(incident)),
            *_part("Put up for decision", [_action(row) for row in report.actions[:DIGESTS]], len(report.actions) - DIGESTS),
            *_part("Known by", _ids(incident, boots)),
        ],
    )


def hardware(causes: Sequence[Hypothesis], facts: Iterable[Fact]) -> list[Line]:
    """How a person finds the accused GPUs and adapters in the datacenter, from what the checks read; `not read` for the rest."""
    read = {(fact.host, fact.device or "", fact.key): fact.value for fact in facts if fact.status is Status.OK and fact.value is not None}
    devices = list(dict.fromkeys(device for cause in causes for device in cause.devices if IDS.get(_kind(device))))
    lines: list[Line] = []
    for device in devices[:MAX_DEVICES]:
        host, _, name = device.partition("/")
        ids = [(says, read.get((host, "" if key == "fabric.leaf" else name, key))) for says, key in IDS[_kind(device)]]
        parts: list[Part] = [bold(device)]
        for says, value in ids:
            parts += [f" · {says} ", code(str(value)) if value is not None else "not read"]
        lines.append(tuple(parts))
    rest = len(devices) - MAX_DEVICES
    return [*lines, *([(f"… {rest} more devices",)] if rest > 0 else [])]


def _kind(device: str) -> str:
    found = re.fullmatch(r"[^/]+/(gpu|mlx5_|ib)[0-9]{1,3}", device)
    return found[1] if found else ""


def boots_of(facts: Iterable[Fact]) -> dict[str, str]:
    """Host → the boot id that it last told."""
    return {fact.host: str(fact.value) for fact in facts if fact.key == "host.boot_id" and fact.value and fact.host}


def _causes(report: Report, titles: Titles) -> list[Block]:
    parts: list[Block] = []
    causes, room = report.root_causes, MOST_OF_IT // max(1, min(CAUSES, len(report.root_causes)))
    for h in causes[:CAUSES]:
        because: tuple[Line, ...] = ((h.because,),) if h.because else ()
        parts.append(blocks.short((bold(rows.title(h.label, titles)), " ", code(h.label)), rows.place(h), *because, room=PART))
        parts += [blocks.quote(rows.evidence(h.evidence), limit=min(EVIDENCE, room))] if h.evidence else []
    rest = len(causes) - CAUSES
    return [*parts, blocks.say(f"… {rest} more causes")] if rest > 0 else parts


def _ruled_out(incident: IncidentRows, report: Report, titles: Titles) -> list[Line]:
    """All of them, the nearest first."""
    known = {row.label for row in report.ruled_out}
    return rows.ruled_out((*report.ruled_out, *(row for row in _judged(incident, "rejected") if row.label not in known)), titles)


def _undecided(incident: IncidentRows, titles: Titles) -> list[Line]:
    return rows.ruled_out(_judged(incident, "inconclusive"), titles)


def _judged(incident: IncidentRows, verdict: str) -> list[Hypothesis]:
    return sorted((row for row in incident.hypotheses if row.verdict == verdict), key=lambda row: -row.confidence)


def _cost(stats: Stats, report: Report) -> list[Line]:
    together = f", {stats.check_seconds:.0f} s of checks together"
    lines: list[Line] = [(counts.cost(stats) + together,)] if stats.checks else []
    lines += [(f"{stats.exclusive_gpu_seconds:.0f} GPU seconds of exclusive tests",)] if stats.exclusive_gpu_seconds else []
    lines += (
        [(f"{stats.model_calls} model calls, {stats.tokens_in} tokens in, {stats.tokens_out} out, ${stats.usd:.3f}",)]
        if stats.model_calls
        else []
    )
    return lines + ([(f"Without a model: {report.without_model}",)] if report.without_model else [])


def _walk(incident: IncidentRows, titles: Titles) -> list[str]:
    """What was thought of, in its order."""
    lines = [f"{titles.get(path) or path or 'all'}: {did}{f' ({why})' if why else ''}" for path, did, why in incident.walked]
    return [*lines[:WALKED], *([f"… {len(lines) - WALKED} more steps"] if len(lines) > WALKED else [])]


def _happened(incident: IncidentRows) -> list[str]:
    """The last that happened before somebody was handed a ticket; all of it is in the file beside that."""
    moments = timeline(incident) if incident.ticket else ()
    earlier = [f"… {len(moments) - MOMENTS} earlier"] if len(moments) > MOMENTS else []
    return [*earlier, *(f"{moment.at:%m-%d %H:%M:%SZ}  {moment.what}" for moment in moments[-MOMENTS:])]


def _action(row: PlannedAction) -> Line:
    remedy = REMEDIES.get(row.remedy)
    values = dict.fromkeys(remedy.args, "…") | {"target": row.target, "node": row.target} | row.args if remedy else {}
    title = fill(remedy.does, values) if remedy else row.remedy
    return (bold(title), f" on {row.target} ({row.risk})")


def _ids(incident: IncidentRows, boots: Mapping[str, str]) -> list[Line]:
    concerned = sorted({host for row in (incident.report.root_causes if incident.report else ()) for host in row.hosts} & set(boots))
    named = concerned or sorted(boots)
    lines: list[Line] = [(f"boot of {host}: ", code(boots[host])) for host in named[:MOST_HOSTS]]
    lines += [(f"… {len(named) - MOST_HOSTS} more boots",)] if len(named) > MOST_HOSTS else []
    return [(f"incident {incident.id}",), *lines]


def _part(title: str, lines: Sequence[Line], rest: int = 0) -> list[Block]:
    more: list[Line] = [(italic(f"… {rest} more"),)] if rest > 0 else []
    return [blocks.short((bold(title),), *lines, *more, room=PART)] if lines else []


def _quoted(title: str, lines: Sequence[str]) -> list[Block]:
    return [blocks.section((bold(title),)), blocks.quote(lines, limit=PART)] if lines else []
