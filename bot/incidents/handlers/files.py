"""Fetch an item's files and earlier thread messages when its turn begins: acknowledging stays fast, and the inbox keeps
pointers.

The bot token goes only to Slack's hosts. An unreadable file becomes an attachment that says so.
"""

import asyncio
import zlib
from collections.abc import Sequence
from urllib.parse import urlsplit

import structlog
from aiohttp import ClientSession, ClientTimeout
from slack_sdk.web.async_client import AsyncWebClient

from bot.incidents.handlers.thread_history import EarlierMessages, fetch_earlier_messages, format_slack_error
from bot.slack.client import SLACK_ERRORS
from bot.slack.payloads import SlackFile, parse_files
from graph.extraction.uploaded_files import decode_file
from graph.state import Attachment, InboxItem, UnreadReason
from tools.evidence import EvidenceStore

log = structlog.get_logger()
MAX_FILE_BYTES = 25 << 20
TOTAL_SIZE_FACTOR = 4  # all files of one item together, in multiples of the largest allowed file


class FileNotRead(Exception):
    """A file that was not read, and why."""

    def __init__(self, reason: UnreadReason) -> None:
        super().__init__(reason)
        self.why = reason


class ItemFetcher:
    """Returns the item with earlier messages and files."""

    def __init__(self, client: AsyncWebClient, evidence: EvidenceStore, *, largest: int = MAX_FILE_BYTES) -> None:
        self._client = client
        self._evidence = evidence
        self._largest = largest
        self._us = ""

    async def __call__(self, item: InboxItem) -> InboxItem:
        before = await self._fetch_earlier_messages(item)
        files = [SlackFile(**row) for row in item.data.get("files", [])] + list(before.files)
        attachments = await self._fetch_attachments(item.incident, files)
        text = "\n\n".join(part for part in (before.text, item.text) if part)
        return item.model_copy(update={"text": text, "attachments": (*item.attachments, *attachments)})

    async def _fetch_earlier_messages(self, item: InboxItem) -> EarlierMessages:
        """Return the thread up to the mention, without our messages."""
        if "root" not in item.data:
            return EarlierMessages()
        try:
            self._us = self._us or str((await self._client.auth_test())["user_id"])
        except SLACK_ERRORS as error:
            return EarlierMessages(f"[the beginning of this thread could not be read: {format_slack_error(error)}]")
        return await fetch_earlier_messages(self._client, item.data["root"], self._us)

    async def _fetch_attachments(self, incident: str, files: Sequence[SlackFile]) -> list[Attachment]:
        attachments = []
        room = TOTAL_SIZE_FACTOR * self._largest
        for given in files:
            file = given
            try:
                file = await self._resolve_file(given)
                size, text = await self._read_text(file, room)
                room -= len(text)
                attachments.append(Attachment(name=file.name, sha256=await self._evidence.put_text(incident, text), size=size))
            except FileNotRead as error:
                attachments.append(Attachment(name=file.name, size=file.size, unread=error.why))
            except SLACK_ERRORS as error:
                log.warning("files.not_handed_out", incident=incident, trouble=format_slack_error(error))
                attachments.append(Attachment(name=file.name, size=file.size, unread="refused"))
        return attachments

    async def _resolve_file(self, file: SlackFile) -> SlackFile:
        """Look up a file of another workspace, which arrives as an id (docs.slack.dev/reference/objects/file-object)."""
        if file.url or not file.id:
            return file
        row = (await self._client.files_info(file=file.id))["file"]
        return parse_files({"files": [row]})[0]

    async def _read_text(self, file: SlackFile, room: int) -> tuple[int, str]:
        """Return the stored size and the text."""
        if room <= 0:
            raise FileNotRead("too_much")
        if file.size > self._largest:
            raise FileNotRead("too_large")
        if not file.url or not self._is_slack_url(file.url):
            raise FileNotRead("elsewhere")
        raw = await self._download(file.url)
        unpacked = unpack_gzip(raw, self._largest) if raw[:2] == b"\x1f\x8b" else raw
        text, why = await asyncio.to_thread(decode_file, unpacked)
        if why or not unpacked:
            raise FileNotRead(why or "empty")
        return len(raw), text

    async def _download(self, url: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._client.token}"}
        async with (
            ClientSession(timeout=ClientTimeout(total=60)) as session,
            session.get(url, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != 200 or answer.content_type == "text/html":
                raise FileNotRead("refused")
            raw = bytearray()
            async for chunk in answer.content.iter_chunked(1 << 16):
                raw += chunk
                if len(raw) > self._largest:
                    raise FileNotRead("too_large")
            return bytes(raw)

    def _is_slack_url(self, url: str) -> bool:
        """Return whether the bot token may be sent there."""
        there, api = urlsplit(url), urlsplit(self._client.base_url)
        slack = there.scheme == "https" and (there.hostname or "").endswith(".slack.com")
        return slack or (there.scheme, there.netloc) == (api.scheme, api.netloc)


def unpack_gzip(raw: bytes, max_bytes: int) -> bytes:
    """Unpack at most `max_bytes`. Raises FileNotRead if the data is broken."""
    try:
        return zlib.decompressobj(wbits=31).decompress(raw, max_bytes)
    except zlib.error as error:
        raise FileNotRead("broken") from error
