"""One chart of an incident, chosen by name."""

from typing import Final, Literal, get_args

from bot.refusal import Refusal
from bot.reports.charts.drawing import Drawing, build_bandwidth_drawing, build_heatmap_drawing, build_timeline_drawing, build_trace_drawing
from bot.reports.figures import FigureInputs, find_deciding_heatmaps
from graph.search_trace import build_search_tree
from graph.timeline import build_timeline
from kb.fact_keys import find_key
from tools.bandwidth import collect_bandwidths
from tools.fact import Status
from tools.heatmap import Heatmap

PictureName = Literal["heatmap", "bandwidth", "walk", "timeline"]
PICTURES: Final[tuple[PictureName, ...]] = get_args(PictureName)
MAX_NAMED_KEYS = 12  # keys listed in a refusal


class NothingToDraw(Refusal):
    """There is nothing of which that picture would be."""


def build_single_drawing(name: PictureName, key: str, inputs: FigureInputs) -> Drawing:
    """Build a drawing. `key`: a heat map's number, by default the deciding one. Raises NothingToDraw."""
    match name:
        case "timeline":
            return build_timeline_drawing(build_timeline(inputs.incident, inputs.records).replace_user_ids(inputs.names))
        case "walk":
            return build_trace_drawing(build_search_tree(inputs.incident, inputs.titles))
        case "bandwidth":
            measurements = collect_bandwidths(
                sorted({fact.host for fact in inputs.facts if fact.host}), inputs.facts, inputs.expected(inputs.facts)
            )
            if not measurements.curves:
                raise NothingToDraw(
                    f"{inputs.incident.id}: no bandwidth was measured, so there is none to draw; `--kind timeline` and `walk` always are"
                )
            return build_bandwidth_drawing(measurements)
        case "heatmap":
            return build_heatmap_drawing(_build_heatmap(key, inputs))


def list_drawable_keys(inputs: FigureInputs) -> list[str]:
    """Return keys for heat maps."""
    keys = {fact.key for fact in inputs.facts if fact.status is Status.OK and isinstance(fact.value, int | float)}
    rows = {key: find_key(key) for key in keys}
    return sorted(key for key, row in rows.items() if row is not None and row.is_quantity and row.scope == "gpu")


def _build_heatmap(key: str, inputs: FigureInputs) -> Heatmap:
    decided = find_deciding_heatmaps(inputs.incident.report, inputs.facts)
    if not key and decided:
        return decided[0]
    heat = Heatmap(key, sorted({fact.host for fact in inputs.facts if fact.key == key and fact.host}))
    heat.add_facts(inputs.facts)
    if heat.list_known_hosts():
        return heat
    drawable_keys = list_drawable_keys(inputs)
    more = f" and {len(drawable_keys) - MAX_NAMED_KEYS} more" if len(drawable_keys) > MAX_NAMED_KEYS else ""
    names = f"name one with --key: {', '.join(drawable_keys[:MAX_NAMED_KEYS])}{more}" if drawable_keys else "no number of a GPU was read"
    raise NothingToDraw(f"{inputs.incident.id}: {f'no value of {key!r:.80} was read' if key else 'no number of GPUs decided it'}; {names}")
