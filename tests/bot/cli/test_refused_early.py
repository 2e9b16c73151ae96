"""Wrong input is refused before heavy imports. One process runs all commands, so each refusal must leave the imports as
they were.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.terminal import ROOT

pytestmark = pytest.mark.slow


# command lines and the expected refusal, decidable from the words alone
SLIPS = (
    (("diagnose",), "for example"),
    (("diagnose", " "), "for example"),
    (("diagnose", "it hangs", "--hosts", "gpu-[001-"), "--hosts: unbalanced brackets"),
    (("diagnose", "it hangs", "--hosts", "gpu-[9-1]"), "runs backwards"),
    (("diagnose", "it hangs", "--attach", "absent.log"), "--attach absent.log: No such file"),
    (("diagnose", "it hangs", "--attach", "."), "--attach .: Is a directory"),
    (("diagnose", "--sandbox", "absent.yaml"), "--sandbox absent.yaml: there is no such file"),
    (("look", "gpu-["), "unbalanced brackets"),
    (("look", "n1", "--out", "x.png"), "--heat"),
    (("look", "n1", "--heat", "gpu.temp.core", "--json"), "choose one"),
    (("look", "n1", "--heat", "gpu.temp.core", "--out", "x.gif"), ".png or .svg"),
    (("look", "n1", "--heat", "gpu.temp.core", "--out", "absent/x.png"), "there is no folder absent"),
    (("look", "n1", "--sandbox", "absent.yaml"), "--sandbox absent.yaml: there is no such file"),
    (("dry-run", "gpu_reset", "n1", "0000:9b:00.0"), "NAME=VALUE"),
    (("dry-run", "gpu_reset", "n1", "--sandbox", "absent.yaml"), "--sandbox absent.yaml: there is no such file"),
    (("classify", " "), "no text to classify"),
)

# command lines that can be refused only after reading settings or inventory
LATER = (
    (("diagnose", "it hangs", "--config", "absent.yaml"), "absent.yaml: cannot be read"),
    (("diagnose", "it hangs", "--inventory", "absent.yaml"), "absent.yaml"),
    (("diagnose", "it hangs", "--hosts", "n9", "--inventory", "hosts.yaml"), "--hosts: not in the inventory: n9"),
    (("diagnose", "--sandbox", "hosts.yaml"), "hosts.yaml is no usable case"),
    (("look", "n9", "--inventory", "hosts.yaml"), "not in the inventory: n9"),
    (("look", "n1", "sim", "--inventory", "hosts.yaml"), "there is no check 'sim'"),
    (("doctor", "--config", "absent.yaml"), "absent.yaml: cannot be read"),
    (("serve", "--config", "absent.yaml"), "absent.yaml: cannot be read"),
    (("job", "4711", "--inventory", "hosts.yaml"), "no scheduler can be asked"),
    (("dry-run", "pray", "n1", "--inventory", "hosts.yaml"), "there is no remedy 'pray'"),
    (("dry-run", "reboot", "n9", "--inventory", "hosts.yaml"), "n9 is not in the inventory"),
)

CHILD = """
import json, sys
from typer.testing import CliRunner
from bot.cli.main import app
for words in json.loads(sys.argv[1]):
    ran = CliRunner().invoke(app, words)
    print(json.dumps([ran.exit_code, ran.stdout, ran.stderr, sorted({name.partition(".")[0] for name in sys.modules})]))
"""
HEAVY = {"langgraph", "langchain_core", "fakeredis", "redis", "asyncssh", "slack_sdk", "aiohttp", "numpy"}


def refused(folder: Path, commands: list[tuple[str, ...]]) -> list[tuple[int, str, str, set[str]]]:
    """Return exit code, stdout, stderr and the packages imported so far, per command, in one fresh process."""
    clean = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(commands)], cwd=folder, env=clean, capture_output=True, text=True, check=True
    )
    return [(code, out, err, set(imported)) for code, out, err, imported in map(json.loads, ran.stdout.splitlines())]


def test_a_slip_is_refused_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    for (words, told), (code, out, err, imported) in zip(SLIPS, refused(tmp_path, [words for words, _ in SLIPS]), strict=True):
        assert (code, out) == (2, ""), (words, err)
        assert told in err, words
        assert not imported & (HEAVY | {"yaml", "rich"}), words


def test_what_only_settings_or_inventory_tell_is_refused_before_the_graph_is_imported(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("groups: {g: {hosts: n1}}\n")
    for (words, told), (code, out, err, imported) in zip(LATER, refused(tmp_path, [words for words, _ in LATER]), strict=True):
        assert (code, out) == (2, ""), (words, err)
        assert told in err, words
        assert not imported & {"langgraph", "langchain_core", "fakeredis", "qdrant_client"}, words


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    for _, out, _, imported in refused(tmp_path, [(), ("--help",), ("diagnose", "--help")]):
        assert "Usage: rackmedic" in out
        assert not imported & (HEAVY | {"yaml"})
