"""Outputs that somebody asked for as files, and numbers as pictures, put into the thread beside the answer. Each goes there once."""

import asyncio
from collections.abc import Awaitable

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.text import clip
from bot.pictures.heat import picture
from bot.slack.client import SLACK_TROUBLE
from bot.slack.outgoing.posts import PostedCards
from graph.report import Report, ShownPicture
from graph.state import Origin
from tools.evidence import EvidenceStore
from tools.heat import Heat, in_words

log = structlog.get_logger()
ALT = 900
"""Slack takes a thousand characters for those who cannot see a picture."""


class Outputs:
    """The answer stands without its files, so Slack's refusal is written down and no more."""

    def __init__(self, client: AsyncWebClient, cards: PostedCards, evidence: EvidenceStore) -> None:
        self._client, self._cards, self._evidence = client, cards, evidence
        self._drawing = asyncio.Lock()

    async def share(self, origin: Origin, incident: str, report: Report, facts: str) -> None:
        """Upload what the report shows; `facts` is the digest of those that its numbers are of."""
        for number, row in enumerate(report.shown):
            text = await self._evidence.get(row.sha256)
            if text is not None and not await self._cards.claim(incident, f"shown:{report.item}:{number}"):
                await self._tried(incident, self._upload(origin, row.name, row.name, text))
        for number, wanted in enumerate(report.pictures):
            if not await self._cards.claim(incident, f"picture:{report.item}:{number}"):
                await self._tried(incident, self._picture(origin, incident, wanted, facts))

    async def _picture(self, origin: Origin, incident: str, wanted: ShownPicture, facts: str) -> None:
        """Drawn beside the event loop, one at a time: Matplotlib is not made for more."""
        heat = Heat(wanted.key, wanted.hosts)
        try:
            heat.add(await self._evidence.facts(facts))
        except KeyError:
            log.warning("board.picture_without_facts", incident=incident)
            return
        async with self._drawing:
            drawn = await asyncio.to_thread(picture, heat)
        words = clip(in_words(heat), ALT)
        await self._upload(origin, f"{wanted.key}.png", clip(f"{heat.says}, a number of every GPU", 100), drawn, words)

    async def _upload(self, origin: Origin, name: str, title: str, content: str | bytes, alt: str | None = None) -> None:
        await self._client.files_upload_v2(
            channel=origin.channel, thread_ts=origin.thread_ts, content=content, filename=name, title=title, alt_txt=alt
        )

    async def _tried(self, incident: str, upload: Awaitable[None]) -> None:
        try:
            await upload
        except SLACK_TROUBLE as trouble:
            log.warning("board.output_not_uploaded", incident=incident, error=str(trouble)[:200])
