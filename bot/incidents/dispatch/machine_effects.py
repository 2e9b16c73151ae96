"""What a failed turn may have changed on machines; never a claim that nothing happened."""

from graph.state import InboxItem


def format_machine_effects(item: InboxItem) -> str:
    """Return a sentence for the thread. An action ran, or not, before its result's turn."""
    if item.kind != "action_result":
        return "A message changes nothing on any host; approved actions continue, as their cards show."
    approval, remedy = str(item.data.get("approval", "")), str(item.data.get("remedy", "an action"))
    if not approval:
        return "It was news about a fix in progress; its cards say what was done on the machines."
    if item.data.get("event") == "unknown":
        return f"Unknown whether {remedy} ran ({approval}); its card says what to check."
    if item.data.get("ran"):
        return f"{remedy} ran ({approval}), and its card says how it ended; I could not work out what follows from it."
    return f"{approval} ({remedy}) is over without having run, as its card says; I could not work out what follows from it."
