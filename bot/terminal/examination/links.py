"""Both ends of the line to a provider: whether their intake takes our signature, and whether the keys of our own intake can be used."""

from bot.provider.link import HttpLink, LinkAway, LinkRefused, ProviderLink
from bot.provider.webhook import key_of
from bot.refusal import Refusal
from bot.run.provider import intake_keys
from bot.run.world import WallClock
from bot.settings import PREFIX, Settings
from bot.terminal.examination.finding import Finding
from kb.scan import lines_in
from tools.inventory.hosts import Inventory


async def provider_findings(settings: Settings) -> list[Finding]:
    """Nothing where no provider is named. Asks how far no ticket is: that needs a good signature, and tells nothing."""
    if not settings.provider_url:
        return []
    try:
        link = HttpLink(settings.provider_url, key_of(settings.provider_key.get_secret_value()), WallClock())
    except ValueError as why:
        return [Finding("provider", "fail", f"the key {why}", f"set {PREFIX}PROVIDER_KEY to the one that the provider gave you")]
    return [await _tried(link, settings.provider_url)]


async def _tried(link: ProviderLink, url: str) -> Finding:
    try:
        await link.states(())
    except LinkAway as why:
        return Finding("provider", "fail", f"{url}: {why}", "check the address and the way there; what is to be sent waits meanwhile")
    except LinkRefused as why:
        return Finding("provider", "fail", f"{url}: {why}", f"compare {PREFIX}PROVIDER_KEY, the tenant in the address and both clocks")
    return Finding("provider", "ok", f"{url} takes our signature")


def intake_findings(settings: Settings, inventory: Inventory) -> list[Finding]:
    """Nothing where no intake is open."""
    if settings.intake_keys is None:
        return []
    try:
        keys = intake_keys(settings.intake_keys, inventory)
    except Refusal as why:
        return [Finding("intake", "fail", problem, "mend the file; nothing is served until then") for problem in lines_in(str(why))]
    counted = ", ".join(f"{tenant} ({len(rows)})" for tenant, rows in sorted(keys.items()))
    return [Finding("intake", "ok", f"port {settings.intake_port} of {settings.intake_host}; keys of {counted}")]
