"""A broken site taxonomy is reported with file, line and every problem, without a traceback."""

from pathlib import Path

import pytest

from tests.support.terminal import rackmedic

BROKEN = "category: GPU\nleaves:\n  GPU.BUS.Ours:\n    title: ours\n    owner: nobody\n"


@pytest.mark.parametrize("command", [("taxonomy",), ("taxonomy", "--json"), ("classify", "it hangs"), ("diagnose", "it hangs")])
def test_a_broken_site_file_is_told_by_line_with_the_setting_that_names_it(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "taxonomy").mkdir()
    (tmp_path / "taxonomy" / "own.yaml").write_text(BROKEN)
    ran = rackmedic(*command, environ={"RACKMEDIC_KB_DIR": str(tmp_path)})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "RACKMEDIC_KB_DIR: the taxonomy cannot be used:" in ran.stderr
    assert f"{tmp_path / 'taxonomy' / 'own.yaml'}:" in ran.stderr
    assert "Traceback" not in ran.stderr
