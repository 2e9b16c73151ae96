"""Links from a report to the incidents that own one of its causes."""

from collections.abc import Mapping

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Part, bold
from graph.report import Report
from tools.inventory.host_ranges import fold_host_names

OTHER_THREAD_TEXT = "another thread"


def render_shared_causes(report: Report, links: Mapping[str, Part]) -> list[Block]:
    """Render a line per owning incident. `links`: incident → thread, where readable."""
    return [
        _render_shared_cause(report, incident, links.get(incident, OTHER_THREAD_TEXT))
        for incident in dict.fromkeys(row.incident for row in report.shared)
    ]


def render_thread_links(report: Report, links: Mapping[str, Part]) -> list[Block]:
    """Render the readable threads of cited closed incidents."""
    links_of_threads = [links[thread.incident] for thread in report.threads if thread.incident in links]
    return (
        [blocks.line_section("↪ Threads: ", *[part for link in links_of_threads for part in (link, " · ")][:-1])]
        if links_of_threads
        else []
    )


def _render_shared_cause(report: Report, incident: str, where: Part) -> Block:
    rows = [row for row in report.shared if row.incident == incident]
    hosts = fold_host_names(host for row in rows for host in row.hosts)
    covers_all = {row.label for row in rows} == {root_cause.label for root_cause in report.root_causes}
    subject_parts: tuple[Part, ...] = (bold(hosts), " is") if hosts and not covers_all else ("This is",)
    later = " I look again here when that is over." if any(row.waits for row in rows) else ""
    return blocks.line_section("↪ ", *subject_parts, " worked on in ", where, f", and decided there.{later}")
