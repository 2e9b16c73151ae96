"""A heat map as terminal table or image."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from bot.cli.command_requests import parse_picture_format
from bot.reports.charts.heatmap import render_heatmap
from tools.heatmap import MAX_ROWS, Heatmap
from tools.inventory.host_ranges import fold_host_names


def render_heatmap_table(heat: Heatmap) -> Table:
    """Return the hosts farthest from the median, coloured blue (low) to red (high)."""
    spread = heat.compute_spread()
    if spread is None:
        return Table(
            "host", title=f"{heat.key}: no value was read", caption=f"no value: {fold_host_names(heat.hosts)}", title_justify="left"
        )
    low, middle, high = spread
    gpus = heat.columns
    rows = {host: heat.get_row(host, gpus) for host in heat.hosts}
    known = {host: row for host, row in rows.items() if any(value is not None for value in row)}
    shown = sorted(known, key=lambda host: -max(abs(value - middle) for value in known[host] if value is not None))[:MAX_ROWS]
    unit = f" {heat.unit}" if heat.unit else ""
    title = f"{heat.key}{unit}: {low:g} to {high:g}, median {middle:g}"
    rest = [host for host in known if host not in set(shown)]
    blind = [host for host in heat.hosts if host not in known]
    notes = ([f"nearer the median: {fold_host_names(rest)}"] if rest else []) + ([f"no value: {fold_host_names(blind)}"] if blind else [])
    table = Table("host", *gpus, title=title, caption="\n".join(notes) or None, title_justify="left", caption_justify="left")
    for host in sorted(shown, key=list(heat.hosts).index):
        table.add_row(host, *(_render_cell(value, low, high) for value in known[host]))
    return table


def _render_cell(value: float | None, low: float, high: float) -> Text:
    if value is None:
        return Text("?", style="dim")
    part = (value - low) / (high - low) if high > low else 0.0
    red, blue = round(90 + 165 * part), round(255 - 175 * part)
    return Text(f"{value:g}", style=f"rgb({red},{round(200 - 110 * part)},{blue})" + (" bold" if part > 0.8 else ""))


def write_heatmap_image(heat: Heatmap, out: Path) -> None:
    out.write_bytes(render_heatmap(heat, parse_picture_format(out)))
