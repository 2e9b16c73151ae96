"""The read-only "Show all" dialog: every action of a card, whole."""

from collections.abc import Mapping, Sequence

from bot.cards import blocks
from bot.cards.blocks import Block, TooLong
from bot.cards.text import Line, bold, exact_code, italic
from bot.remediation.cards import action_text, approval_card, card_parts, deleted_files
from bot.remediation.cards.killed_process import KnownRows
from tools.ledger.record import ActionRecord

MAX_DETAIL_CHARS = 260
MAX_PAGE_CHARS = 2600
NO_KNOWN_ROWS: Mapping[str, KnownRows] = {}


def render_all_actions(records: Sequence[ActionRecord], known: Mapping[str, KnownRows] = NO_KNOWN_ROWS) -> Block:
    """Render the dialog. `known`: stored rows by approval id. Decisions stay on the card, where Slack confirms them."""
    head = blocks.section((bold(action_text.describe_actions([record.action for record in records])),))
    note = blocks.context(("Approve and reject on the card. This shows how it stood when it was opened.",))
    title = f"All {len(records)} actions" if len(records) > 1 else "The whole action"
    action_blocks = [block for record in records for block in (_render_action(record), *_render_files(known.get(record.approval, ())))]
    return blocks.read_only_modal(title, [head, *action_blocks, note])


def _render_files(known: KnownRows) -> list[Block]:
    """Render all deleted files, as many per block as fit."""
    lines, file_blocks = deleted_files.list_all_files(known), list[Block]()
    while lines:
        count, room = 0, MAX_PAGE_CHARS
        while count < len(lines) and (room := room - len(lines[count]) - 1) >= 0:
            count += 1
        file_blocks.append(blocks.code_section(lines[: max(1, count)], width=MAX_PAGE_CHARS))
        lines = lines[max(1, count) :]
    return file_blocks


def _render_action(record: ActionRecord) -> Block:
    action = record.action
    mark, word = action_text.get_state_word(record)
    above: list[Line] = [(f"{mark} ", *action_text.render_place(action), " · ", bold(word)), ("digest ", exact_code(action.digest))]
    below: list[Line] = [
        (card_parts.format_approval_count(record), f" · {action.risk} · time limit {action.limit_seconds} s · {action.approval}"),
        *(
            (f"• {sentence}",)
            for sentence in filter(
                None, (action_text.describe_fault_condition(action), *(condition.says for condition in action.conditions))
            )
        ),
        (italic(f"boot {action.boot_id or '–'}"),),
    ]
    try:
        return blocks.exact_command_section(above, approval_card.format_command(action), below, MAX_DETAIL_CHARS)
    except TooLong as error:
        return blocks.section((bold("Too large to show whole"), f": {action.approval}, {error}"))
