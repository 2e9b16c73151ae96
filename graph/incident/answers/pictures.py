"""What is drawn of an incident where somebody asks for it: its timeline, the tree of what was looked into, bandwidth by message size. The rows of each
come with it as text. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from graph.incident.answers.known import Asked, ago, cited, clean, meant, name_of, offer, ruled_out_by, say, unknown_said
from graph.incident.concluded import Concluded
from graph.report import ShownPicture
from graph.timeline import timeline_of
from graph.walked import WalkedBranch, walked_tree
from graph.walked import in_words as walk_in_words
from tools.bandwidth import Bandwidths, bandwidths, size_in_words
from tools.bandwidth import in_words as bandwidth_in_words
from tools.fact import Value
from tools.inventory.ranges import fold

LATEST, MOST_RULED_OUT = 5, 6
HERE: Final = "As a picture and as text:"


async def show_picture(asked: Asked) -> Concluded:
    """The one that is named, else the tree."""
    return DRAWN.get(asked.said.picture, _walk)(asked)


def _timeline(asked: Asked) -> Concluded:
    """The last moments in words; whoever decided about actions is known to the ledger, and on the picture."""
    events = timeline_of(asked.case).events
    last = [
        f"{row.at:%H:%M:%S} {row.kind}: {clean(row.says, 120)}{_by(asked, row.says)}"
        for row in events
        if row.kind not in ("logged", "said")
    ][-LATEST:]
    if not events:
        return say(asked, ["No moment of this incident is known yet, so there is nothing to draw."])
    head = f"{len(events)} moments since {events[0].at:%Y-%m-%d %H:%M} UTC. {HERE}"
    return say(asked, [head, *last], pictures=(ShownPicture(kind="timeline"),))


def _by(asked: Asked, says: str) -> str:
    """Of a moment at which a cause was found: what it rests on."""
    return next((cited(row) for row in asked.roots if asked.title(row.label) in says), "")


def _speaks_against(asked: Asked, branch: WalkedBranch) -> str:
    return ruled_out_by(asked, branch.path) if branch.path in asked.now.standings else clean(branch.reason, 60)


def _walk(asked: Asked) -> Concluded:
    """What was found and what is out."""
    tree = walked_tree(asked.case, asked.now.lens.taxonomy.titles)
    if not (asked.case.walked or asked.case.report):
        return say(asked, ["I have looked into nothing yet, so nothing is ruled out."])
    out = [f"{branch.title} ({_speaks_against(asked, branch)})" for branch in tree.of("ruled out")]
    blind = [branch.title for branch in tree.of("could not look")]
    lines = [
        f"{walk_in_words(tree)} {HERE}",
        *(f"{asked.title(row.label)}{cited(row)}." for row in asked.roots[:3]),
        f"Ruled out: {_named(out)}." if out else "Nothing of what I went into is ruled out.",
        f"Could not look: {_named(blind)}." if blind else "",
    ]
    return say(asked, lines, pictures=(ShownPicture(kind="walk"),))


def _named(titles: list[str]) -> str:
    rest = len(titles) - MOST_RULED_OUT
    return ", ".join(titles[:MOST_RULED_OUT]) + (f" and {rest} more" if rest > 0 else "")


def bandwidth(asked: Asked) -> Concluded:
    """How fast hosts were at each message size."""
    here = meant(asked)
    hosts = here.hosts if here.named else asked.case.visible
    found = measured(asked, hosts)
    if not found.curves:
        how = f"Say `run nccl1 on {fold(hosts[:1])}` to put the test up for decision." if hosts else ""
        return say(asked, [*unknown_said(asked), f"No bandwidth by message size was measured on {fold(hosts) or 'any host'}.", how])
    span = f"{size_in_words(found.sizes[0])} to {size_in_words(found.sizes[-1])}"
    lines = [
        *unknown_said(asked),
        f"{clean(bandwidth_in_words(found), 400)} · {_measured_with(asked)} · messages of {span}. {HERE}",
        offer(asked, [row.host for row in found.curves]),
    ]
    return say(asked, lines, pictures=(ShownPicture(kind="bandwidth", hosts=tuple(hosts) if here.named else ()),))


def _measured_with(asked: Asked) -> str:
    """The tests that measured it, and how long ago."""
    facts = [fact for fact in asked.case.facts if fact.key.startswith("nccl.") and fact.check]
    latest = max((fact.time for fact in facts if fact.time), default=None)
    return f"{', '.join(dict.fromkeys(name_of(fact.check) for fact in facts))} · read {ago(latest, asked.at)}"


def measured(asked: Asked, hosts: tuple[str, ...]) -> Bandwidths:
    """The curves of those of these hosts of which there are any; hosts that nobody asked to test are not missing."""

    def expected(host: str) -> Value:
        return asked.now.lens.expected(host, "nccl.busbw_max", None) if host else None

    whole = bandwidths(hosts, asked.case.facts, expected)
    return whole if asked.said.hosts else Bandwidths(whole.curves)


DRAWN: Final[Mapping[str, Callable[[Asked], Concluded]]] = {"timeline": _timeline, "walk": _walk, "bandwidth": bandwidth}
