"""A site's pages: parsing and error reports."""

from pathlib import Path

import pytest

from kb.history.site_pages import MAX_PAGE_BYTES, BadPages, SitePage, load_pages

PAGE = """---
labels: [INTERCONNECT.IB.Port_Down]
groups: r7, r8
source: https://wiki.example/r7
---
# mlx5_1 is the control plane

On racks r7 and r8 `mlx5_1` carries no training traffic; that it is slow means nothing.
"""


def written(folder: Path, text: str | bytes, name: str = "r7.md") -> Path:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_a_page_is_a_title_a_text_and_what_it_is_found_by(tmp_path: Path) -> None:
    [page] = load_pages(written(tmp_path, PAGE), {"INTERCONNECT.IB.Port_Down"})
    assert (page.id, page.title) == ("r7", "mlx5_1 is the control plane")
    assert (page.labels, page.groups, page.source) == (("INTERCONNECT.IB.Port_Down",), ("r7", "r8"), "https://wiki.example/r7")
    assert "carries no training traffic" in page.text


def test_a_page_needs_no_head(tmp_path: Path) -> None:
    [page] = load_pages(written(tmp_path, "Port 2 of every H100 is not cabled.\n", "cables.md"))
    assert page == SitePage("cables", "cables", "Port 2 of every H100 is not cabled.")


def test_secrets_are_taken_out(tmp_path: Path) -> None:
    [page] = load_pages(written(tmp_path, "# BMC\nlog in with `ipmitool -U admin -P hunter2hunter2 -H bmc-7`\n"))
    assert "hunter2" not in page.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("---\nlabels: GPU.NO.Such\n---\nwords", "r7.md:2: unknown label GPU.NO.Such"),
        ("---\nowner: me\n---\nwords", "r7.md:2: 'owner' is none of title"),
        ("# only a title\n", "r7.md:1: says nothing below its title"),
        ("", "r7.md:1: says nothing below its title"),
        ("x" * (MAX_PAGE_BYTES + 1), "r7.md:1: longer than 64 KiB"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadPages) as why:
        load_pages(written(tmp_path, text), {"GPU.BUS.Fallen_Off_Bus"})
    assert says in str(why.value)


def test_bytes_that_are_no_text_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    [page] = load_pages(written(tmp_path, b"\xef\xbb\xbf# caf\xe9\nwords \xff\n"))
    assert page.title.startswith("caf")
