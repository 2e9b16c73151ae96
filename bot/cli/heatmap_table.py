"""A heat map as terminal table or image."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from bot.cli.command_requests import parse_picture_format
from bot.reports.charts.heatmap import render_heatmap
from tools.heatmap import MAX_ROWS, Heatmap
from tools.inventory.host_ranges import fold_host_names


def render_heatmap_table(heatmap: Heatmap) -> Table:
    """Return the hosts farthest from the median, coloured blue (low) to red (high)."""
    spread = heatmap.compute_spread()
    if spread is None:
        return Table(
            "host", title=f"{heatmap.key}: no value was read", caption=f"no value: {fold_host_names(heatmap.hosts)}", title_justify="left"
        )
    low, middle, high = spread
    gpus = heatmap.columns
    rows = {host: heatmap.get_row(host, gpus) for host in heatmap.hosts}
    known = {host: row for host, row in rows.items() if any(value is not None for value in row)}
    shown = sorted(known, key=lambda host: -max(abs(value - middle) for value in known[host] if value is not None))[:MAX_ROWS]
    unit = f" {heatmap.unit}" if heatmap.unit else ""
    title = f"{heatmap.key}{unit}: {low:g} to {high:g}, median {middle:g}"
    rest = [host for host in known if host not in set(shown)]
    blind = [host for host in heatmap.hosts if host not in known]
    notes = ([f"nearer the median: {fold_host_names(rest)}"] if rest else []) + ([f"no value: {fold_host_names(blind)}"] if blind else [])
    table = Table("host", *gpus, title=title, caption="\n".join(notes) or None, title_justify="left", caption_justify="left")
    for host in sorted(shown, key=list(heatmap.hosts).index):
        table.add_row(host, *(_render_cell(value, low, high) for value in known[host]))
    return table


def _render_cell(value: float | None, low: float, high: float) -> Text:
    if value is None:
        return Text("?", style="dim")
    part = (value - low) / (high - low) if high > low else 0.0
    red, blue = round(90 + 165 * part), round(255 - 175 * part)
    return Text(f"{value:g}", style=f"rgb({red},{round(200 - 110 * part)},{blue})" + (" bold" if part > 0.8 else ""))


def write_heatmap_image(heatmap: Heatmap, out: Path) -> None:
    out.write_bytes(render_heatmap(heatmap, parse_picture_format(out)))
