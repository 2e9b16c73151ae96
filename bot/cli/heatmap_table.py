"""A heat map as terminal table or image."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from bot.cli.command_requests import parse_picture_format
from bot.cli.text_table import build_text_table
from bot.reports.charts.heatmap import render_heatmap
from tools.heatmap import MAX_ROWS, Heatmap
from tools.inventory.host_ranges import fold_host_names

MAX_GPUS_A_TABLE = 8  # more stand in tables below, so that no number is broken


def render_heatmap_tables(heat: Heatmap) -> list[Table]:
    """Return the hosts farthest from the median, coloured blue (low) to red (high)."""
    spread = heat.compute_spread()
    if spread is None:
        empty = build_text_table(("host",), (), title=f"{heat.key}: no value was read")
        empty.caption = f"no value: {fold_host_names(heat.hosts)}"
        return [empty]
    low, middle, high = spread
    gpus = heat.columns
    rows = {host: heat.get_row(host, gpus) for host in heat.hosts}
    values_by_host = {host: row for host, row in rows.items() if any(value is not None for value in row)}
    ranked_hosts = sorted(
        values_by_host, key=lambda host: -max(abs(value - middle) for value in values_by_host[host] if value is not None)
    )[:MAX_ROWS]
    unit = f" {heat.unit}" if heat.unit else ""
    title = f"{heat.key}{unit}: {low:g} to {high:g}, median {middle:g}"
    rest = [host for host in values_by_host if host not in set(ranked_hosts)]
    unobserved_hosts = [host for host in heat.hosts if host not in values_by_host]
    notes = ([f"nearer the median: {fold_host_names(rest)}"] if rest else []) + (
        [f"no value: {fold_host_names(unobserved_hosts)}"] if unobserved_hosts else []
    )
    tables: list[Table] = []
    for first in range(0, len(gpus), MAX_GPUS_A_TABLE):
        part = slice(first, first + MAX_GPUS_A_TABLE)
        cells: list[list[str | Text]] = [
            [host, *(_render_cell(value, low, high) for value in values_by_host[host][part])]
            for host in sorted(ranked_hosts, key=list(heat.hosts).index)
        ]
        tables.append(build_text_table(("host", *gpus[part]), cells, title="" if tables else title))
    tables[-1].caption = "\n".join(notes) or None
    tables[-1].caption_justify = "left"
    return tables


def _render_cell(value: float | None, low: float, high: float) -> Text:
    if value is None:
        return Text("?", style="dim")
    part = (value - low) / (high - low) if high > low else 0.0
    red, blue = round(90 + 165 * part), round(255 - 175 * part)
    return Text(f"{value:g}", style=f"rgb({red},{round(200 - 110 * part)},{blue})" + (" bold" if part > 0.8 else ""))


def write_heatmap_image(heat: Heatmap, out: Path) -> None:
    out.write_bytes(render_heatmap(heat, parse_picture_format(out)))
