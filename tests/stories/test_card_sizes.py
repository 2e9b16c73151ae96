"""Reading effort on a phone: words, blocks and pixels of the cards of twelve incidents, on the local page at 390 × 844.
Results are in `out/screenshots/cards.md`; `make shots` measures again.
"""

from dataclasses import dataclass

from playwright.async_api import Page

from bot.cards.blocks import Card
from bot.slack.client import build_slack_client, post_message
from deploy.sandbox.slack import SlackSandbox
from tests.support.fixtures_browser import SHOTS, browser_page, needs_chromium, shot
from tests.support.samples_cards import CASES, seen_of

pytestmark = needs_chromium

CHANNEL, WIDTH, HEIGHT = "C0GPUINC", 390, 844
TOGETHER = 1450  # pixels for a diagnosis and an approval with its jobs, outage, cost of waiting and the whole command


@dataclass(frozen=True, slots=True)
class Size:
    """The reading effort of one case."""

    name: str
    words: int
    characters: int
    blocks: int
    heights: tuple[int, ...]

    def row(self) -> str:
        each = " + ".join(map(str, self.heights))
        return f"| {self.name} | {self.words} | {self.characters} | {self.blocks} | {each} | {sum(self.heights)} |"


async def test_a_diagnosis_and_its_approval_fit_a_phone() -> None:
    sizes = []
    async with SlackSandbox() as slack, browser_page(WIDTH, HEIGHT) as page:
        for name in CASES:
            cards = (await seen_of(name)).cards
            heights = await _shown(slack, page, cards, name)
            sizes.append(Size(name, *_read(cards), heights))
    table = ["| case | words | characters | blocks | px each | px |", "|---|---|---|---|---|---|", *(size.row() for size in sizes)]
    (SHOTS / "cards.md").write_text("\n".join(table) + "\n")
    assert not [size for size in sizes if sum(size.heights) > TOGETHER], "\n".join(table)


def _read(cards: list[Card]) -> tuple[int, int, int]:
    texts = [text for card in cards for text in _texts(list(card.blocks))]
    return sum(len(text.split()) for text in texts), sum(map(len, texts)), sum(len(card.blocks) for card in cards)


def _texts(thing: object) -> list[str]:
    """Return the card's texts without confirmation dialogs."""
    if isinstance(thing, dict):
        own = [thing["text"]] if isinstance(thing.get("text"), str) else []
        return own + [text for name, part in thing.items() if name != "confirm" for text in _texts(part)]
    return [text for part in thing for text in _texts(part)] if isinstance(thing, list) else []


async def _shown(slack: SlackSandbox, page: Page, cards: list[Card], name: str) -> tuple[int, ...]:
    """Post the cards in a thread and return each message's height."""
    client = build_slack_client(slack.bot_token, slack.api_url)
    root = await slack.say("olga", CHANNEL, f"@rackmedic {name}")
    posted = [await post_message(client, CHANNEL, root, card) for card in cards]
    await page.goto(f"{slack.url}/?as=priya&channel={CHANNEL}")
    await page.locator(f'.main [data-ts="{root}"]').get_by_test_id("open-thread").click()
    rows = [page.locator(f'.thread [data-ts="{ts}"]') for ts in posted]
    boxes = []
    for row in rows:
        await row.wait_for()
        boxes.append(await row.bounding_box())
    await rows[0].evaluate("row => row.scrollIntoView({block: 'start'})")
    await shot(page, f"card {name}")
    return tuple(round(box["height"]) for box in boxes if box)
