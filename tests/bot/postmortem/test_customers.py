"""A customer's page: their words, their machines by their own names, and no trace of anything else that the incident holds."""

import json
import re

import pytest

from bot.policy.leaks import Inside
from bot.postmortem.formats import FORMATS
from bot.postmortem.gather import CustomerSide, NotACustomers
from bot.postmortem.page import Page, as_json
from kb.customers.words import load_customer_words
from kb.taxonomy.reader import load_taxonomy
from tests.bot.postmortem.samples import NAMES, handed_off, of_customer
from tests.support.inventories import inventory

SITE = inventory(
    groups={"acme": {"hosts": "gpu-017", "tenant": "acme"}, "canary": {"hosts": "gpu-018", "tenant": "canary"}},
    hosts={"gpu-017": {"alias": "train-01"}},
    channels=[{"channel": "C0OPS", "kind": "operators"}, {"channel": "C0ACME", "kind": "tenant", "tenant": "acme", "internal": "C0OPS"}],
)
WORDS = load_customer_words(load_taxonomy())


async def page_in(language: str) -> Page:
    kept = await of_customer()
    return await kept.sources.for_customer(kept.id, CustomerSide(SITE, WORDS, {"C0ACME": language}))


@pytest.mark.parametrize("language", ["en", "de"])
async def test_nothing_of_the_inside_is_on_it(language: str) -> None:
    page = await page_in(language)
    text = json.dumps(as_json(page), ensure_ascii=False)
    people = [part for name in NAMES.values() for part in name.split()]
    inside = (
        "gpu-018",
        "gpu-017",
        "canary",
        "apr-",
        "reboot",
        "Xid",
        "%",
        "C0OPS",
        "rejected",
        "no job on it",
        "hunter2",
        "riser",
        *people,
        *NAMES,
    )
    assert [word for word in inside if re.search(rf"(?<!\w){re.escape(word)}", text, re.IGNORECASE)] == []
    assert Inside(SITE, "acme", page.incident, NAMES.values()).leaks(text) == ()
    assert "train-01" in text
    for row in FORMATS.values():
        assert len(row.write(page)) > 300


async def test_it_is_in_their_language() -> None:
    assert (await page_in("de")).title == "Vorgang inc-1: Ein Fehler auf unserer Seite"
    assert (await page_in("en")).lead == "Somebody of our people has it."


async def test_who_may_see_it_all_does() -> None:
    """Else the search finds nothing because nothing is there."""
    kept = await of_customer()
    text = json.dumps(as_json(await kept.sources.for_operators(kept.id)), ensure_ascii=False)
    assert all(word in text for word in ("gpu-018", "apr-", "no job on it", "Ann Approver"))


async def test_an_incident_of_no_customer_has_none() -> None:
    kept = await handed_off()
    with pytest.raises(NotACustomers, match="reported by no customer"):
        await kept.sources.for_customer(kept.id, CustomerSide(SITE, WORDS))
