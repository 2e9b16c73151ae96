"""Untrusted text is one bounded field of a log line, without terminal control or invisible characters."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from bot.app.logs import MAX_FIELD_CHARS, RedactingFormatter, clean_field, set_up_logs

FORGED = "nobody\n2026-05-20 [info     ] ledger.claim approval=app-1"
CHOSEN = {
    "colours": "\x1b[31mred\x1b[0m",
    "a title": "\x1b]0;root@ctl\x07",
    "eight-bit controls": "\x9b31m",
    "bidi": "tenant\u202egnp.exe\u2066",
    "zero width": "ac\u200bme",
    "another line": FORGED,
    "a carriage return": "well\rill",
    "a line of Unicode's": "a\u2028b\u2029c\u0085d",
    "a vertical tab": "a\x0b\x0cb",
    "null": "a\x00b",
    "a private letter": "a\ue000b",
    "tags": "a\U000e0041b",
    "half a letter": "a\udc9bb",
    "long": "x" * 100_000,
}


@pytest.fixture(params=["console", "json"])
def shape(request: pytest.FixtureRequest) -> Iterator[str]:
    """Set up logging as `serve` does."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers = root.handlers[:]
    yield str(request.param)
    root.handlers[:] = handlers
    structlog.configure(**before)


def is_plain(line: str) -> bool:
    return all(char.isprintable() for char in line) and len(line) <= MAX_FIELD_CHARS * 2


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_a_field_is_one_bounded_line_that_shows_all_it_holds(shape: str, chosen: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("info", shape)  # type: ignore[arg-type]  # one of its two
    structlog.get_logger().warning("http.refused", why=chosen, within={"path": chosen, "all": [chosen]} if len(chosen) < 200 else 0)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert is_plain(said.rstrip("\n"))
    if shape == "json":
        assert json.loads(said)["event"] == "http.refused"


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_a_librarys_line_is_one_too(chosen: str) -> None:
    record = logging.LogRecord("aiohttp", logging.ERROR, "", 0, "bad request: %s", (chosen,), None)
    assert is_plain(RedactingFormatter("%(levelname)s %(name)s %(message)s").format(record))


def test_a_traceback_keeps_its_lines_and_obeys_nothing(capsys: pytest.CaptureFixture[str], shape: str) -> None:
    set_up_logs("info", shape)  # type: ignore[arg-type]  # one of its two
    try:
        int("\x1b[31m" + "x" * 3_000)
    except ValueError:
        structlog.get_logger().exception("http.bug")
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "\x1b" not in said
    assert len(said) < 30_000


def test_what_is_plain_stays_as_it_is() -> None:
    assert clean_field("gpu-[001-004]: größer, 5 °C") == "gpu-[001-004]: größer, 5 °C"
