"""What a message points to is fetched when its turn begins, not when it arrives: acknowledging stays fast, and nothing is lost
when a process dies between the two, because the inbox holds the pointers.

Files are read with our token, from Slack's own hosts only; what cannot be read is said in the text, never silently left out.
"""

import zlib
from collections.abc import Sequence
from urllib.parse import urlsplit

from aiohttp import ClientSession, ClientTimeout
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.client import SLACK_TROUBLE
from bot.slack.incoming.payloads import Sent
from bot.slack.incoming.thread import Earlier, earlier, short
from graph.state import Attachment, Item
from tools.evidence import EvidenceStore

LARGEST = 25 << 20
MOST_TOGETHER = 4
"""So many times the largest file may all files of one item take."""


class Unread(Exception):
    """A file that was not read. The text says why, for the reporter."""


class Fetch:
    """`await fetch(item)`: the same item with what its thread said before, and its files."""

    def __init__(self, client: AsyncWebClient, evidence: EvidenceStore, *, largest: int = LARGEST) -> None:
        self._client = client
        self._evidence = evidence
        self._largest = largest
        self._us = ""

    async def __call__(self, item: Item) -> Item:
        before = await self._before(item)
        files = [Sent(**row) for row in item.data.get("files", [])] + list(before.files)
        attachments, notes = await self._files(item.incident, files)
        text = "\n\n".join(part for part in (before.text, item.text, *notes) if part)
        return item.model_copy(update={"text": text, "attachments": (*item.attachments, *attachments)})

    async def _before(self, item: Item) -> Earlier:
        """The thread in which somebody called us, up to there, but for what we said in it."""
        if "root" not in item.data:
            return Earlier()
        try:
            self._us = self._us or str((await self._client.auth_test())["user_id"])
        except SLACK_TROUBLE as trouble:
            return Earlier(f"[the beginning of this thread could not be read: {short(trouble)}]")
        return await earlier(self._client, item.data["root"], self._us)

    async def _files(self, incident: str, files: Sequence[Sent]) -> tuple[list[Attachment], list[str]]:
        attachments, notes = [], []
        room = MOST_TOGETHER * self._largest
        for file in files:
            try:
                text = await self._read(file, room)
                room -= len(text)
                attachments.append(Attachment(name=file.name, sha256=await self._evidence.put(incident, text)))
            except Unread as why:
                notes.append(f"[{file.name} was not read: {why}]")
            except SLACK_TROUBLE as trouble:
                notes.append(f"[{file.name} was not read: {short(trouble)}]")
        return attachments, notes

    async def _read(self, file: Sent, room: int) -> str:
        if room <= 0:
            raise Unread(f"the files before it are {MOST_TOGETHER * self._largest >> 20} MB already; attach it by itself")
        if file.size > self._largest:
            raise Unread(
                f"{file.size >> 20} MB are more than the {self._largest >> 20} MB that I take; paste or attach the part around the first error"
            )
        if not file.url or not self._ours(file.url):
            raise Unread("it does not lie with Slack")
        raw = await self._download(file.url)
        text = unpack(raw, self._largest) if raw[:2] == b"\x1f\x8b" else raw
        if b"\0" in text[:4096]:
            raise Unread("it is not text")
        return text.decode("utf-8", "replace")

    async def _download(self, url: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._client.token}"}
        async with (
            ClientSession(timeout=ClientTimeout(total=60)) as session,
            session.get(url, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != 200 or answer.content_type == "text/html":
                raise Unread(f"Slack did not hand it out (status {answer.status}); the app needs the scope files:read")
            raw = bytearray()
            async for chunk in answer.content.iter_chunked(1 << 16):
                raw += chunk
                if len(raw) > self._largest:
                    raise Unread(f"it is more than the {self._largest >> 20} MB that I take")
            return bytes(raw)

    def _ours(self, url: str) -> bool:
        """Our token goes to Slack, or to whatever stands in for it, and nowhere else."""
        there, api = urlsplit(url), urlsplit(self._client.base_url)
        slack = there.scheme == "https" and (there.hostname or "").endswith(".slack.com")
        return slack or (there.scheme, there.netloc) == (api.scheme, api.netloc)


def unpack(raw: bytes, most: int) -> bytes:
    """A gzip'ed log, as far as `most`."""
    try:
        return zlib.decompressobj(wbits=31).decompress(raw, most)
    except zlib.error as wrong:
        raise Unread(f"it is a broken archive: {wrong}") from wrong
