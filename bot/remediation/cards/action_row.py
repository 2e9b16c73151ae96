"""One action as a row of a shared card: state, host, exact command, digest prefix, buttons.

Host and command are whole, or the action gets its own card; details are cut to MAX_DETAIL_CHARS. A command that all rows
share appears once above them.
"""

from bot.cards import blocks
from bot.cards.blocks import Block, TooLong
from bot.cards.text import (
    Line,
    bold,
    code,
)
from bot.remediation.cards import action_text, approval_card, card_parts, side_effects
from bot.remediation.cards.approval_card import ApprovalCardView
from tools.action import Action
from tools.ledger.record import ActionRecord
from tools.ledger.states import OPEN_STATES, State

MAX_DETAIL_CHARS = 300  # For preconditions, votes and result below the command.
MAX_STATUS_CHARS = 50  # For the words of the state.
MAX_ROWS_CHARS = 8600  # For all rows of one card, so that the message also holds the shared parts.
DIGEST_PREFIX_CHARS = 16
MAX_VOTES = 2


def render_action_row(view: ApprovalCardView, *, told_above: bool = False) -> list[Block]:
    """Render the row. `told_above`: the command and shared conditions appear above all rows."""
    record = view.record
    if not told_above:
        text = blocks.exact_command_section(
            (_render_first_line(record, view.waiting_note),),
            approval_card.format_command(record.action),
            _render_detail_lines(view),
            MAX_DETAIL_CHARS,
        )
        return [blocks.divider(), text, *approval_card.render_buttons(record)]
    own = _render_detail_lines(view, held_alike=has_met_conditions(view))
    return [
        blocks.exact_line_section(_render_first_line(record, view.waiting_note), own, MAX_DETAIL_CHARS),
        *approval_card.render_buttons(record),
    ]


def has_met_conditions(view: ApprovalCardView) -> bool:
    """Return whether a dry run saw every precondition hold."""
    return bool(view.condition_results) and all(one.ok is True for one in view.condition_results)


def count_row_chars(action: Action) -> int:
    """Return the row's maximal size; more than MAX_ROWS_CHARS if it cannot be a row."""
    try:
        core = blocks.exact_command_section(
            ((*action_text.render_place(action), *_render_digest(action)),), approval_card.format_command(action), (), 0
        )
    except TooLong:
        return MAX_ROWS_CHARS + 1
    text = blocks.count_text_chars(core) + MAX_STATUS_CHARS + MAX_DETAIL_CHARS
    return text + approval_card.count_button_chars(action) if text < blocks.MAX_SECTION_CHARS else MAX_ROWS_CHARS + 1


def _render_first_line(record: ActionRecord, held: str) -> Line:
    mark, word = action_text.get_state_word(record, held)
    count: Line = (
        (" · ", card_parts.format_approval_count(record))
        if record.state is State.PENDING and (record.approvals or record.terms.quorum > 1)
        else ()
    )
    return (f"{mark} ", *action_text.render_place(record.action), " · ", bold(word), *count, *_render_digest(record.action))


def _render_digest(action: Action) -> Line:
    return (" ", code(f"{action.digest[:DIGEST_PREFIX_CHARS]}…"))


def _render_detail_lines(view: ApprovalCardView, *, held_alike: bool = False) -> list[Line]:
    record = view.record
    condition_lines: list[Line] = []
    if record.state in OPEN_STATES and not held_alike:
        condition_lines += _render_condition_lines(view)
    if record.state in OPEN_STATES:
        condition_lines += side_effects.render_known_lines(record.action, view.known_rows)
    votes = card_parts.render_vote_lines(record, view.names)[-MAX_VOTES:]
    return [*condition_lines, *card_parts.render_status_lines(record, view.names, view.began, view.waiting_note), *votes]


def _render_condition_lines(view: ApprovalCardView) -> list[Line]:
    """Render unmet preconditions one by one and the others as a number."""
    if not view.condition_results:
        return []
    bad = [one for one in view.condition_results if one.ok is not True]
    good, condition_count = len(view.condition_results) - len(bad), len(view.condition_results)
    held_line: Line = (f"✓ {good} of {condition_count} precondition{'s' if condition_count > 1 else ''} hold{'s' if good == 1 else ''}",)
    return [*map(card_parts.render_condition, bad), *([held_line] if good else [])]
