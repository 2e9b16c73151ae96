"""`rackmedic report` refuses wrong arguments before it opens anything."""

from pathlib import Path

import pytest

from bot.cli.incident_report import PostmortemRequest
from bot.refusal import Refusal
from tests.support.terminal import rackmedic


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "docx"), "there is md, pdf"),
        (("--format", "html"), "--format html: there is md, pdf; --json is for scripts"),
        (("--out", "a.HTML"), "a report is not written as HTML: there is md, pdf"),
        (("--format", "pdf"), "say where to write it, for example --out inc-1.pdf"),
        (("--out", "/nowhere/at/all.pdf"), "there is no folder /nowhere/at"),
    ],
)
def test_a_slip_is_refused_with_its_mend(words: tuple[str, ...], said: str) -> None:
    ran = rackmedic("report", "inc-1", *words)
    assert ran.returncode == 2
    assert said in ran.stderr


@pytest.mark.parametrize(("out", "form", "written"), [("a.pdf", "", "pdf"), ("a.txt", "", "md"), ("a.pdf", "md", "md")])
def test_the_format_is_as_asked_for_else_by_the_name(tmp_path: Path, out: str, form: str, written: str) -> None:
    assert PostmortemRequest("inc-1", form, tmp_path / out).output_format == written


def test_the_request_itself_refuses() -> None:
    with pytest.raises(Refusal):
        PostmortemRequest("inc-1", "pdf")
