"""`rackmedic report`: an incident as a page to keep, for our own people or for the customer who reported it."""

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from bot.postmortem.figures import reached
from bot.postmortem.formats import FORMATS, PageFormat
from bot.postmortem.gather import CustomerSide, IncidentSources, called_by_id
from bot.postmortem.page import Page, as_json
from bot.refusal import Refusal
from bot.terminal.edge import hand_out, tell
from bot.terminal.paper import json_line

if TYPE_CHECKING:
    from bot.settings import Settings
    from bot.store.store import Store

STDOUT = "-"


@dataclass(frozen=True, slots=True)
class PostmortemRequest:
    """What was typed. Raises Refusal for a format that is none, and for bytes on a terminal."""

    incident: str
    format: str = ""
    out: Path | None = None
    customer: bool = False
    as_json: bool = False

    def __post_init__(self) -> None:
        if self.format and self.format not in FORMATS:
            raise Refusal(f"--format {self.format}: there is {', '.join(FORMATS)}; --json is for scripts", 2)
        if not self.format and self._suffix in ("html", "htm"):
            raise Refusal(f"--out {self.out}: a report is not written as HTML: there is {', '.join(FORMATS)}; --json is for scripts", 2)
        if not self.to_file and not self.as_json and not FORMATS[self.written].text and (self.out is None or sys.stdout.isatty()):
            raise Refusal(f"a PDF is no text: say where to write it, for example --out {self.incident}.pdf", 2)
        if self.out and self.to_file and not self.out.absolute().parent.is_dir():
            raise Refusal(f"--out {self.out}: there is no folder {self.out.parent}", 2)

    @property
    def to_file(self) -> bool:
        return self.out is not None and str(self.out) != STDOUT

    @property
    def written(self) -> PageFormat:
        """As asked for; else by the file's name; else Markdown."""
        wanted = self.format or self._suffix
        return next((name for name in get_args(PageFormat) if name == wanted), "md")

    @property
    def _suffix(self) -> str:
        return self.out.suffix.lower().removeprefix(".") if self.out else ""


async def write_report(settings: "Settings", request: PostmortemRequest) -> int:
    """Gather the page and write it. Raises Refusal."""
    from bot.run.logs import set_up_logs
    from bot.terminal.stored import stored

    set_up_logs(settings.log_level, settings.log_format)
    async with stored(settings, "incidents") as store, incident_sources(settings, store) as sources:
        page = await _page(settings, store, sources, request)
    content = FORMATS[request.written].write(page)
    if request.to_file and request.out:
        _write(request.out, content)
    if request.as_json:
        row = {"file": str(request.out), "format": request.written, "bytes": len(content)} if request.to_file else {}
        tell(json_line({**as_json(page), **row}))
    elif request.to_file:
        tell(f"{request.out}: {FORMATS[request.written].says}, {len(content):,} bytes, for {_readers(page)}. Read it before it leaves.")
    else:
        hand_out(content, text=FORMATS[request.written].text)
    return 0


def _readers(page: Page) -> str:
    return "the customer" if page.audience == "customer" else "your own people"


async def _page(settings: "Settings", store: "Store", sources: IncidentSources, request: PostmortemRequest) -> Page:
    if not request.customer:
        return await sources.for_operators(request.incident)
    from bot.slack.outgoing.posts import PostedCards

    withdrawn = bool(await PostedCards(store.redis).get(request.incident, "customer_withdrawn"))
    return await sources.for_customer(request.incident, await customer_side(settings), withdrawn=withdrawn)


async def customer_side(settings: "Settings") -> CustomerSide:
    """What the site has of its customers. Raises Refusal."""
    from bot.run.customers import known_at
    from bot.run.site import site_skus, site_taxonomy
    from bot.run.world import site_inventory
    from kb.customers.words import load_customer_words

    inventory, taxonomy = await site_inventory(settings), site_taxonomy(settings.kb_dir)
    languages = {row.channel: row.language for row in inventory.channels}
    known = known_at(inventory, taxonomy, site_skus(settings.kb_dir))
    return CustomerSide(inventory, load_customer_words(taxonomy), languages, known)


@contextlib.asynccontextmanager
async def incident_sources(settings: "Settings", store: "Store") -> AsyncIterator[IncidentSources]:
    """Names come from Slack where its token is set; a ledger that cannot be opened keeps nobody from the rest."""
    from bot.desk.courses import Courses
    from bot.run.site import site_skus, site_taxonomy
    from bot.run.world import WallClock
    from bot.store.ledger import open_ledger
    from bot.terminal.ledger import NO_HOSTS
    from graph.stored import StoredIncidents
    from tools.evidence import DirectoryEvidence

    clock, no_ledger = WallClock(), ""
    try:
        ledger = await open_ledger(settings, store, NO_HOSTS, clock, changing=True)
    except Refusal as why:
        ledger, no_ledger = None, str(why)
    taxonomy, skus = site_taxonomy(settings.kb_dir), site_skus(settings.kb_dir)
    yield IncidentSources(
        StoredIncidents(store.redis).state,
        DirectoryEvidence(settings.evidence_dir),
        clock,
        ledger,
        no_ledger,
        Courses(store.redis).course,
        _names(settings),
        taxonomy.titles,
        partial(reached, NO_HOSTS, skus),
    )


def _names(settings: "Settings") -> Callable[[str], Awaitable[str]]:
    token = settings.slack_bot_token.get_secret_value()
    if not token:
        return called_by_id
    from bot.slack.client import slack_client
    from bot.slack.people import People

    return People(slack_client(token, settings.slack_api_url)).name


def _write(out: Path, content: bytes) -> None:
    try:
        out.write_bytes(content)
    except OSError as why:
        raise Refusal(f"--out {out}: cannot be written: {why.strerror}") from why
