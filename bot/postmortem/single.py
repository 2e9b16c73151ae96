"""One picture of an incident, as somebody names it. Which numbers there are is what was kept. Pure."""

from typing import Final, Literal, get_args

from bot.pictures.drawing import Drawing, of_bandwidths, of_heat, of_timeline, of_walk
from bot.postmortem.figures import FigureMatter, heats_of
from bot.refusal import Refusal
from graph.timeline import timeline_of
from graph.walked import walked_tree
from kb.keys import find
from tools.bandwidth import bandwidths
from tools.fact import Status
from tools.heat import Heat

PictureName = Literal["heatmap", "bandwidth", "walk", "timeline"]
PICTURES: Final[tuple[PictureName, ...]] = get_args(PictureName)
MOST_NAMED = 12
"""Keys that a refusal names."""


class NothingDrawn(Refusal):
    """There is nothing of which that picture would be."""


def one_drawing(name: PictureName, key: str, of: FigureMatter) -> Drawing:
    """What is wanted, still to be drawn. `key`: of which number a heat map is, else of the one that decided. Raises NothingDrawn."""
    match name:
        case "timeline":
            return of_timeline(timeline_of(of.rows, of.records).named(of.names))
        case "walk":
            return of_walk(walked_tree(of.rows, of.titles))
        case "bandwidth":
            found = bandwidths(sorted({fact.host for fact in of.facts if fact.host}), of.facts, of.expected(of.facts))
            if not found.curves:
                raise NothingDrawn(
                    f"{of.rows.id}: no bandwidth was measured, so there is none to draw; `--kind timeline` and `walk` always are"
                )
            return of_bandwidths(found)
        case "heatmap":
            return of_heat(_heat(key, of))


def drawable(of: FigureMatter) -> list[str]:
    """Keys of which a heat map can be drawn, by their names."""
    keys = {fact.key for fact in of.facts if fact.status is Status.OK and isinstance(fact.value, int | float)}
    return sorted(key for key in keys if (row := find(key)) is not None and row.quantity and row.scope == "gpu")


def _heat(key: str, of: FigureMatter) -> Heat:
    decided = heats_of(of.rows.report, of.facts)
    if not key and decided:
        return decided[0]
    heat = Heat(key, sorted({fact.host for fact in of.facts if fact.key == key and fact.host}))
    heat.add(of.facts)
    if heat.known():
        return heat
    known = drawable(of)
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    names = f"name one with --key: {', '.join(known[:MOST_NAMED])}{more}" if known else "no number of a GPU was read"
    raise NothingDrawn(f"{of.rows.id}: {f'no value of {key!r:.80} was read' if key else 'no number of GPUs decided it'}; {names}")
