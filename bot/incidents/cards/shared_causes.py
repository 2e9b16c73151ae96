"""Links from a report to the incidents that own one of its causes."""

from collections.abc import Mapping

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Part, bold
from graph.report import Report
from tools.inventory.host_ranges import fold_host_names

OTHER_THREAD_TEXT = "another thread"


def render_shared_causes(report: Report, links: Mapping[str, Part]) -> list[Block]:
    """Render a line for each incident that owns a cause of the report.

    Args:
        report: the report whose causes other incidents own.
        links: links to the threads of incidents, where the channel's readers may see them.
    """
    incidents = dict.fromkeys(cause.incident for cause in report.shared)
    return [_render_shared_cause(report, incident, links.get(incident, OTHER_THREAD_TEXT)) for incident in incidents]


def render_thread_links(report: Report, links: Mapping[str, Part]) -> list[Block]:
    """Render the threads of the closed incidents that the report cites, as far as `links` has them."""
    parts: list[Part] = []
    for thread in report.threads:
        if thread.incident in links:
            parts += [" · ", links[thread.incident]] if parts else [links[thread.incident]]
    return [blocks.line_section("↪ Threads: ", *parts)] if parts else []


def _render_shared_cause(report: Report, incident: str, thread: Part) -> Block:
    shared_causes = [cause for cause in report.shared if cause.incident == incident]
    hosts = fold_host_names(host for cause in shared_causes for host in cause.hosts)
    covers_all = {cause.label for cause in shared_causes} == {cause.label for cause in report.root_causes}
    subject: tuple[Part, ...] = (bold(hosts), " is") if hosts and not covers_all else ("This is",)
    recheck = " I look again here when that is over." if any(cause.waits for cause in shared_causes) else ""
    return blocks.line_section("↪ ", *subject, " worked on in ", thread, f", and decided there.{recheck}")
