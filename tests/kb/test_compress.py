"""Log compression into templates: all lines are counted once, events stay whole, and positions point into the log."""

import io
import re
from datetime import UTC, datetime
from itertools import islice, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.logs.compress import LogCompressor, Source, compress_log
from kb.logs.template import _MASKS, find_hex_lines, mask_around_xid, mask_line, unify_hex
from kb.logs.template_filters import FILTERS, FilterRule, find_dropping_rule
from kb.needle_search import zero_digits

pytestmark = pytest.mark.slow


NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)
METRIC = (
    "[2026-05-20 03:09:{:02}] iteration {:8d}/ 500000 | consumed samples: "
    "{:12d} | learning rate: 1.0E-4 | lm loss: {:.6E} | grad norm: 0.{:03d} |"
)


def metrics(lines: int) -> str:
    return "".join(METRIC.format(n % 60, n, n * 1024, 2 + n / 1e6, n % 1000) + "\n" for n in range(lines))


def accounted(text: str | bytes, limit: int = 60) -> bool:
    """Return whether every non-empty line is in a template, dropped by a rule, or left out."""
    digest = compress_log(text, limit=limit, now=NOW)
    return sum(template.count for template in digest.templates) + sum(digest.dropped.values()) + digest.left_out == digest.lines


def test_a_long_training_log_becomes_what_matters() -> None:
    text = metrics(20_000) + "2026-05-20 03:40:00,000 ERROR trainer: disk quota is nearly exhausted\n" + metrics(20_000)
    digest = compress_log(text, now=NOW)
    assert digest.dropped == {"metrics": 40_000}
    (template,) = digest.templates
    assert (template.count, template.first) == (1, datetime(2026, 5, 20, 3, 40, tzinfo=UTC))
    assert text.encode()[template.offset :].startswith(b"2026-05-20 03:40:00,000 ERROR")
    assert (digest.lines, digest.size) == (40_001, len(text))


def test_lines_that_differ_in_numbers_are_one_template_with_count_times_and_pointers() -> None:
    lines = [f"2026-05-20 03:0{n}:00 worker {n} on 10.0.0.{n} reads 0x{n}f shard {n}00 of /data/part-{n}/x" for n in range(1, 5)]
    (template,) = compress_log("\n".join(lines), now=NOW).templates
    assert template.text == "<time> worker <n> on <ip> reads <hex> shard <n> of <path>"
    assert template.count == 4
    assert template.first == datetime(2026, 5, 20, 3, 1, tzinfo=UTC)
    assert template.last == datetime(2026, 5, 20, 3, 4, tzinfo=UTC)
    assert (template.offset, template.last_offset) == (0, 3 * len(lines[0]) + 3)
    assert template.example == lines[0]


def test_no_xid_is_masked_or_merged_with_another() -> None:
    flood = "".join(
        f"[{n:5d}.000000] NVRM: Xid (PCI:0000:{0x10 + n % 4:02x}:00): {31 if n % 2 else 45}, pid={n}, name=python3, Ch 00000008\n"
        for n in range(4000)
    )
    digest = compress_log(flood + metrics(1000), now=NOW)
    shown = {
        (code, bus)
        for code in (31, 45)
        for bus in range(0x10, 0x14)
        if any(f"Xid (PCI:0000:{bus:02x}:00): {code}" in t.text for t in digest.templates)
    }
    assert shown == {(45, 0x10), (31, 0x11), (45, 0x12), (31, 0x13)}
    xids = [event for event in digest.events if event.kind == "kernel.xid"]
    assert {(event.value, event.device) for event in xids} == {
        (45, "0000:10:00.0"),
        (31, "0000:11:00.0"),
        (45, "0000:12:00.0"),
        (31, "0000:13:00.0"),
    }
    assert sum(event.attrs["count"] for event in xids) == 4000


@given(st.lists(st.integers(1, 199), min_size=1, max_size=100), st.integers(1, 60))
def test_compression_keeps_every_xid(codes: list[int], limit: int) -> None:
    text = "".join(f"[{n:5d}.000000] NVRM: Xid (PCI:0000:9b:00): {code}, Ch 0000000{n % 8}\n" for n, code in enumerate(codes))
    digest = compress_log(text, limit=limit, now=NOW)
    assert {event.value for event in digest.events if event.kind == "kernel.xid"} == set(codes)
    assert len(digest.templates) <= limit
    assert sum(template.count for template in digest.templates) + digest.left_out == len(codes)


def test_events_come_out_whole_although_templates_are_masked() -> None:
    text = (
        metrics(500)
        + "[rank13]: Traceback (most recent call last):\n[rank13]:   File 'train.py', line 3\n[rank13]: KeyError: 'input_ids'\n"
        + metrics(500)
    )
    digest = compress_log(text, now=NOW)
    (error,) = [event for event in digest.events if event.kind == "job.error"]
    assert (error.attrs["rank"], error.attrs["type"], digest.job.first_rank) == ("13", "KeyError", "13")


def test_a_loss_that_turns_nan_is_no_regular_metric() -> None:
    digest = compress_log(metrics(2000) + "[2026-05-20 03:50:00] iteration 2001/ 500000 | lm loss: nan | grad norm: nan |\n", now=NOW)
    assert [event.value for event in digest.events] == ["loss_nan"]
    assert [template.count for template in digest.templates] == [1]


def test_templates_are_at_most_as_many_as_asked_for_and_trouble_stays() -> None:
    words = [first + second for first in "bdfgklmnprst" for second in ("arn", "ole", "uth", "end")]
    text = "".join(f"{word} goes on\n" * 3 for word in words) + "unit foo: cannot open the thing\n"
    digest = compress_log(text, limit=20, now=NOW)
    assert len(digest.templates) == 20
    assert any("cannot open" in template.text for template in digest.templates)
    assert accounted(text, limit=20)


def test_a_progress_bar_drawn_over_one_line_is_many_lines() -> None:
    bar = "".join(f"{n:3d}%|{'█' * (n // 10)}{' ' * (10 - n // 10)}| {n}/100 [00:0{n % 10}<00:10,  9.{n % 10}it/s]\r" for n in range(100))
    digest = compress_log(bar + "\nepoch done with trouble: cannot save\n", now=NOW)
    assert digest.dropped == {"progress": 100}
    assert len(digest.templates) == 1


@pytest.mark.parametrize("kind", ["text", "bytes", "binary file", "text file", "lines"])
def test_any_source_gives_the_same_digest(kind: str) -> None:
    text = metrics(300) + "café: unit failed\n"
    data = text.encode()
    sources: dict[str, Source] = {
        "text": text,
        "bytes": data,
        "binary file": io.BytesIO(data),
        "text file": io.StringIO(text),
        "lines": iter(text.splitlines(keepends=True)),
    }
    assert compress_log(sources[kind], now=NOW) == compress_log(data, now=NOW)


def test_pieces_cut_in_the_middle_of_lines_change_nothing() -> None:
    data = (metrics(300) + "unit foo failed\n" + metrics(10)).encode()
    compressor = LogCompressor(now=NOW)
    for at in range(0, len(data), 777):
        compressor.feed(data[at : at + 777])
    assert compressor.finish() == compress_log(data, now=NOW)


def test_secrets_are_gone_from_templates_and_examples() -> None:
    digest = compress_log("login refused for token=abcdefghij1234567890 at gate\n", now=NOW)
    assert "abcdefghij" not in repr(digest.templates)


def test_a_rule_never_drops_what_sounds_like_trouble() -> None:
    assert find_dropping_rule("<time> iteration <n> | loss: <n>") == "metrics"
    assert find_dropping_rule("<time> iteration <n> | loss: <n> ERROR: lost rank <n>") is None
    greedy = (FilterRule("all", re.compile("")),)
    assert find_dropping_rule("anything at all", greedy) == "all"
    assert find_dropping_rule("a fatal thing", greedy) is None


@pytest.mark.parametrize("rule", FILTERS, ids=lambda rule: rule.pattern.pattern[:40])
@given(data=st.data())
def test_a_rule_is_tried_on_all_that_it_drops(rule: FilterRule, data: st.DataObject) -> None:
    template = data.draw(st.from_regex(rule.pattern, alphabet=st.characters(codec="ascii"))).lower()
    assert rule.drops(template) == (rule.pattern.search(template) is not None)


def test_masks_take_what_varies_and_keep_the_words() -> None:
    assert (
        mask_line(zero_digits("gpu-017 took 1.5e-3 s at 2026-05-20T03:09:00.123Z from 550e8400-e29b-41d4-a716-446655440000"))
        == "gpu-<n> took <n> s at <time> from <uuid>"
    )
    assert (
        mask_around_xid("[   12.5] NVRM: Xid (PCI:0000:9b:00): 119, pid=2024, name=x9")
        == "[<time>] NVRM: Xid (PCI:0000:9b:00): 119, pid=<n>, name=x<n>"
    )


@example("Xid (")
@given(st.text(alphabet="ab01 :|[]%\n\rXid(é\x00é", max_size=400))
def test_no_line_of_any_text_is_lost(text: str) -> None:
    assert accounted(text)
    assert accounted(text.encode(), limit=3)


@pytest.mark.parametrize(
    "line",
    [
        "comm 0x0a00bc rank 00 commId 0xdeadbeef00 - Init START",
        "tokenizer cache hit 0a0b0c0d0e0f for bucket 00",
        "job 0a0b0c0d-0a0b-0a0b-0a0b-0a0b0c0d0e0f began (00000000abcd0)",
        "May 00 00:00:00.0000abcd0 0000abcd0 kernel: x",
        "0000-00-00 00:00:00,000000ab0 loss=0.0000000a0",
        "open /mnt/0a0b0c0d0e/x-0a0b0c0d0e.tar at 0a0b0c0d0e:00 in 0000000000 bytes",
        "\x1b[00mdead00beef\x1b[0m at 00.0.0.0:00000abc0",
    ],
)
def test_one_hash_for_all_changes_no_template(line: str) -> None:
    assert mask_line(unify_hex(line)) == mask_line(line)


def test_lines_that_differ_in_a_hash_alone_are_one_shape() -> None:
    assert unify_hex("hit 0a0b0c0d at 0xab00") == unify_hex("hit ffff0fff at 0x0") != unify_hex("hit ffffffff at 0x0")


def test_events_of_a_log_with_wide_characters_are_found_where_they_stand() -> None:
    bar = "Epoch 3:  45%|████▌     | 540/1200\n"
    xid = "2026-05-01T10:00:00,000000+00:00 NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"
    error = "[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    log = (bar * 3 + xid + bar + error).encode()
    digest = compress_log(log)
    assert [(event.kind, event.value) for event in digest.events] == [("kernel.xid", 79), ("job.error", "cuda_illegal_access")]
    assert [log[t.offset :].startswith(xid.encode()) for t in digest.templates if "Xid" in t.text] == [True]


def test_a_traceback_of_one_rank_is_whole_across_blocks_and_among_the_lines_of_others() -> None:
    rows = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "a.py", line 1, in <module>',
        "[rank1]: KeyError: 'x'",
        "[rank1]: bye",
    ]
    noise = "".join(f"[rank{n % 60 + 2}]: step {n}\n" for n in range(600))
    log = "".join(f"{row}\n{noise}" for row in rows)
    whole = compress_log(log).events
    compressor = LogCompressor()
    for at in range(0, len(log), 777):
        compressor.feed(log[at : at + 777].encode())
    assert [(event.value, event.attrs["rank"], event.attrs["type"]) for event in whole] == [("python_exception", "1", "KeyError")]
    assert compressor.finish().events == whole


def test_a_log_with_more_kinds_of_line_than_are_remembered_is_counted_whole() -> None:
    hashes = ["0" + "".join(letters) for letters in islice(product("abcdef", repeat=7), 210_000)]
    compressor = LogCompressor()
    for some in (hashes[:150_000], hashes[150_000:]):
        compressor.feed("".join(f"{line}\n" for line in ("something odd", *(f"shard {name} moved" for name in some))).encode())
    digest = compressor.finish()
    assert {(template.text, template.count) for template in digest.templates} == {("something odd", 2), ("shard <hex> moved", 210_000)}


def test_an_xids_position_is_in_bytes_after_any_text() -> None:
    xid = b"[    1.000000] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
    data = "█ héllo\n".encode() + b"\xff\xfe broken\n" + xid + b"\n"
    (template,) = [template for template in compress_log(data, now=NOW).templates if "Xid" in template.text]
    assert data[template.offset :].startswith(xid)


@given(st.text(alphabet="0a-f:./ |<nx[]TZ+%e\u2588", max_size=80))
def test_a_mask_is_tried_wherever_it_could_match(line: str) -> None:
    expected = line
    for _, pattern, name in _MASKS:
        expected = pattern.sub(name, expected)
    assert mask_line(line) == expected.strip()


@given(st.lists(st.text(alphabet="0af-x: .g", max_size=50), max_size=6))
def test_a_line_that_may_hold_no_hash_is_left_as_it_is_where_one_is_sought(lines: list[str]) -> None:
    some = find_hex_lines([line.encode() for line in lines])
    assert all(unify_hex(line) == line for at, line in enumerate(lines) if at not in some)
