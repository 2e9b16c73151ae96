"""Outputs that somebody asked for as files, put into the thread beside the answer. Each goes there once."""

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.client import SLACK_TROUBLE
from bot.slack.outgoing.posts import PostedCards
from graph.report import Report
from graph.state import Origin
from tools.evidence import EvidenceStore

log = structlog.get_logger()


async def share(client: AsyncWebClient, cards: PostedCards, evidence: EvidenceStore, origin: Origin, incident: str, report: Report) -> None:
    """Upload them. The answer stands without them, so Slack's refusal is written down and no more."""
    for number, row in enumerate(report.shown):
        text = await evidence.get(row.sha256)
        if text is None or await cards.claim(incident, f"shown:{report.item}:{number}"):
            continue
        try:
            await client.files_upload_v2(
                channel=origin.channel, thread_ts=origin.thread_ts, content=text, filename=row.name, title=row.name
            )
        except SLACK_TROUBLE as trouble:
            log.warning("board.output_not_uploaded", incident=incident, error=str(trouble)[:200])
