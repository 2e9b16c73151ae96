"""Any text sent to Slack contains no control token, mention or hidden character, and fits Slack's limits."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slack_sdk.models.blocks import Block as SlackBlock
from slack_sdk.models.blocks import PlanBlock, TaskCardBlock

from bot.cards import blocks, text
from deploy.sandbox.slack.workspace.blockkit import find_problems
from kb.redact import show_invisible

pytestmark = pytest.mark.slow


HOSTILE = st.one_of(
    st.text(max_size=400),
    st.text(alphabet="<>&!@#|`*_~:\n\u202e\u200b\u2066abc", max_size=200),
    st.sampled_from(
        [
            "<!channel> look",
            "<@U024BE7LH>",
            "&lt;!here&gt;",
            "https://evil.example/?q=<secret>",
            "```\n*Approved by @admin*\n```",
            "\u202egpj.exe",
            "a" * 5000,
            "&" * 5000,
            "🔥" * 4000,
            "x\n" * 5000,
            "\ud800 lone",
        ]
    ),
)


def texts(block: object) -> list[str]:
    if isinstance(block, dict):
        return [v for k, v in block.items() if k == "text" and isinstance(v, str)] + [t for v in block.values() for t in texts(v)]
    return [t for item in block for t in texts(item)] if isinstance(block, list) else []


def unparsed(block: object) -> list[str]:
    """Return texts in which Slack parses no tokens, so an ampersand that begins no escape is allowed."""
    if isinstance(block, dict):
        own = [str(block["text"])] if block.get("type") == "plain_text" else []
        return own + [t for v in block.values() for t in unparsed(v)]
    return [t for item in block for t in unparsed(item)] if isinstance(block, list) else []


def without_pairs(shown: str) -> str:
    """Remove pairs of isolates around right-to-left names; an unpaired one stays, as a hidden character."""
    return re.sub(f"{text.ISOLATE_START}([^{text.ISOLATE_START}{text.ISOLATE_END}]*){text.ISOLATE_END}", r"\1", shown)


def is_safe(shown: str, *, literal: bool = False) -> bool:
    entities = re.sub(r"&(?!(?:amp|lt|gt);)" if literal else r"&(amp|lt|gt);", "", shown)
    ours = without_pairs(shown)
    live = re.search(r"(?i)https?://|ftp://", shown)
    return not re.search(r"[<>&]", entities) and show_invisible(ours) == ours and not live


def accepted(block: blocks.Block) -> bool:
    """Return whether Slack's own client library accepts the block."""
    parsed = SlackBlock.parse(block)
    assert parsed is not None
    parsed.validate_json()
    return all(text.count_utf16_units(t) <= blocks.MAX_SECTION_CHARS for t in texts(block))


@given(HOSTILE, HOSTILE)
@settings(max_examples=150)
def test_no_text_escapes_from_any_shape_and_every_shape_fits(one: str, two: str) -> None:
    shapes = [
        blocks.header(one),
        blocks.section((text.bold(one), " ", two), (text.code(two), one), (text.italic(one),)),
        blocks.line_section(one, two),
        blocks.code_section([one, two] * 30),
        blocks.fields([(one, (two,)), (two, (text.bold(one),))] * 8),
        blocks.context(*[(one, two)] * 12),
        blocks.actions(blocks.button(one, "a.b", "v", ask=blocks.confirm(one, two, one))),
        blocks.input_block("x", one, blocks.select({one: [("v", two)]}), hint=two),
    ]
    for block in shapes:
        assert accepted(block)
        assert all(is_safe(shown, literal=shown in unparsed(block)) for shown in texts(block))
    made = blocks.build_card(one + two, shapes)
    assert is_safe(made.text, literal=True)
    assert text.count_utf16_units(made.text) <= blocks.MAX_FALLBACK_CHARS


@given(HOSTILE)
@settings(max_examples=100)
def test_a_code_fence_contains_any_text(row: str) -> None:
    shown = text.code_block([row, row], 3000)
    assert shown.count("`") == 6
    assert shown.startswith("```\n")
    assert shown.endswith("\n```")


@given(st.lists(HOSTILE, max_size=6), st.integers(60, 400))
@settings(max_examples=100)
def test_lines_keep_to_their_limit(rows: list[str], limit: int) -> None:
    assert text.count_utf16_units(text.render_lines([(text.bold(row), row) for row in rows], limit)) <= limit
    assert text.count_utf16_units(text.code_block(rows, limit)) <= limit


def test_a_cut_says_how_much_it_cut() -> None:
    assert text.render_line(("a" * 500,), 100).endswith("… (+413)")
    assert text.code_block([str(n) for n in range(5000)], 3000).endswith("more lines\n```")


def test_hidden_characters_are_shown_by_their_code() -> None:
    assert text.render_line(("gpu\u202e017\u200b",), 100) == "gpu‹U+202E›017‹U+200B›"


def test_ampersand_is_escaped_before_the_brackets() -> None:
    assert text.render_line(("<a&b>",), 100) == "&lt;a&amp;b&gt;"


def test_addresses_in_logs_cannot_be_clicked() -> None:
    assert (
        text.code_block(["see HTTPS://evil.example and tcp://gpu-017:29500"], 3000)
        == "```\nsee hxxps://evil.example and tcp[:]//gpu-017:29500\n```"
    )


def test_quoted_emphasis_and_emoji_codes_mean_nothing() -> None:
    assert (
        text.render_line(("*Approved* by `root` :white_check_mark: at 03:10:00",), 200)
        == "∗Approved∗ by ˋrootˋ ꞉white_check_mark: at 03:10:00"
    )


def test_only_a_group_id_can_be_mentioned() -> None:
    assert text.render_line((text.mention_group("S024BE7LH"),), 100) == "<!subteam^S024BE7LH>"
    for wrong in ("channel", "S1>|<!here", ""):
        with pytest.raises(text.BadId):
            text.mention_group(wrong)


def test_a_link_goes_to_our_own_thread_only() -> None:
    shown = text.render_line((text.thread_link("T1AA", "C1AA", "1700000000.000100", "GPU <lost> | here"),), 400)
    assert shown == "<https://app.slack.com/client/T1AA/C1AA/thread/C1AA-1700000000.000100|GPU &lt;lost&gt; ¦ here>"
    with pytest.raises(text.BadId):
        text.thread_link("T1AA", "C1AA", "1|evil", "x")


def test_ids_and_values_are_refused_rather_than_cut() -> None:
    with pytest.raises(blocks.TooLong):
        blocks.button("x", "a.b", "v" * 2001)
    with pytest.raises(blocks.TooLong):
        blocks.modal("m", "t", [], submit="s", metadata="x" * 3001)


@given(st.integers(0, 120), st.integers(0, 3), st.integers(1, 3000))
@settings(max_examples=60)
def test_a_card_of_any_size_fits_and_keeps_its_buttons(lines: int, rows: int, width: int) -> None:
    buttons = [blocks.actions(blocks.button("x", f"a.{n}", "v")) for n in range(rows)]
    fitted = blocks.fit_blocks([blocks.header("top"), *[blocks.line_section("y" * width)] * lines, *buttons])
    assert len(fitted) <= blocks.MAX_BLOCKS
    assert sum(map(blocks.count_text_chars, fitted)) <= blocks.MAX_MESSAGE_CHARS
    assert [block for block in fitted if block["type"] == "actions"] == buttons


def test_what_does_not_fit_is_counted() -> None:
    fitted = blocks.fit_blocks([blocks.header("top"), *[blocks.divider()] * 80])
    assert len(fitted) == 50
    assert fitted[-1]["elements"][0]["text"] == "… 32 more parts of this card are not shown"


def test_a_form_whose_menus_alone_are_too_long_keeps_every_input() -> None:
    options = [(f"cause-{n}", f"a long title of cause {n:03d} ".ljust(70, "x")) for n in range(100)]
    inputs = [blocks.input_block(f"menu-{n}", "Cause", blocks.select({"All": options})) for n in range(4)]
    assert sum(map(blocks.count_text_chars, inputs)) > blocks.MAX_MESSAGE_CHARS
    assert blocks.fit_blocks(inputs) == inputs


def test_a_choice_of_any_length_is_split_under_headings() -> None:
    element = blocks.select({"GPU": [(f"GPU.x.{n}", f"Fault {n}") for n in range(250)]}, initial="GPU.x.249")
    assert [group["label"]["text"] for group in element["option_groups"]] == ["GPU", "GPU (2)", "GPU (3)"]
    assert max(len(group["options"]) for group in element["option_groups"]) == 100
    assert element["initial_option"]["value"] == "GPU.x.249"


def test_a_typographers_space_is_a_space_on_a_card() -> None:
    assert text.render_line(("job\u00a04711\u2009:",), 100) == "job 4711 :"
    assert text.code_block(["job\u00a04711"], 100) == "```\njob 4711\n```"


def test_a_plan_is_what_slack_takes_and_the_same_in_lines() -> None:
    made = blocks.build_card("x", [blocks.plan("Step 2 of 2", [("Drain <gpu-001>", "complete"), ("Reset " + "x" * 400, "in_progress")])])
    [plan] = made.blocks
    tasks = [TaskCardBlock(**{k: v for k, v in task.items() if k != "type"}) for task in plan["tasks"]]
    assert PlanBlock(title=plan["title"], tasks=tasks).to_dict()["tasks"][0]["status"] == "complete"
    assert find_problems(list(made.blocks), "message") == []
    [lines] = blocks.replace_plan_blocks(made).blocks
    assert lines["text"]["text"].startswith("*Step 2 of 2*\n● Drain ‹gpu-001›\n◐ Reset xxx")
