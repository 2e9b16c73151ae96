"""Signed node kits: what may be installed, and every manipulation that is refused, with the real ssh-keygen."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.cli.node_kit import sign_kit, write_kit
from bot.refusal import Refusal
from tests.support.terminal import rackmedic
from tools.checks import CHECKS
from tools.nodekit.generate import KitPaths, build_kit_files
from tools.remedies import REMEDIES

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is missing: make setup-system")


def key_of(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    return folder / name


def allow(signers: Path, key: Path, who: str = "rackmedic-kit") -> None:
    signers.write_text(f"{who} {' '.join(key.with_suffix('.pub').read_text().split()[:2])}\n")


class Site:
    """A site's signing key, a kit, and a node with allowed signers."""

    def __init__(self, root: Path) -> None:
        self.root, self.kit, self.signers = root, root / "kit", root / "allowed_signers"
        self.key, self.stranger = key_of(root, "site"), key_of(root, "stranger")
        allow(self.signers, self.key)

    def release(self, key: Path | None) -> None:
        """Write the kit as `node-kit` does, with this folder's allowed_signers, and sign it."""
        write_kit(self.kit)
        for name, text in build_kit_files(CHECKS, REMEDIES, KitPaths(signers=str(self.signers))).items():
            (self.kit / name).write_text(text)
        if key:
            sign_kit(self.kit, [self.kit / name for name in build_kit_files(CHECKS, REMEDIES)], key)

    def check(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", str(self.kit / "install.sh"), *words], capture_output=True, text=True, check=False)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    made.release(made.key)
    return made


def test_what_the_site_signed_may_be_installed(site: Site) -> None:
    said = site.check("--check")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("signed by the site: kit ")


def _append(name: str) -> Callable[[Site], object]:
    return lambda site: (site.kit / name).write_text((site.kit / name).read_text() + "# x\n")


CHANGES: dict[str, tuple[Callable[[Site], object], str]] = {
    "a changed script": (_append("rackmedic-act"), "rackmedic-act is not as it was signed"),
    "a changed sudoers": (_append("sudoers"), "sudoers is not as it was signed"),
    "a changed list": (_append("SHA256SUMS"), "another key, or the list was changed"),
    "a changed signature": (lambda site: (site.kit / "SHA256SUMS.sig").write_text("x"), "another key, or the list was changed"),
    "another file": (lambda site: (site.kit / "extra").write_text("x"), "extra is in this folder and was not signed"),
    "a hidden file": (lambda site: (site.kit / ".extra").write_text("x"), ".extra is in this folder and was not signed"),
    "a folder": (lambda site: (site.kit / "more").mkdir(), "more is in this folder and was not signed"),
    "no signature": (lambda site: (site.kit / "SHA256SUMS.sig").unlink(), "the kit is not signed"),
    "no list": (lambda site: (site.kit / "SHA256SUMS").unlink(), "the kit is not signed"),
    "a missing file": (lambda site: (site.kit / "sshd_config").unlink(), "not as it was signed"),
    "nobody's key": (lambda site: site.signers.write_text(""), "another key"),
    "a key for something else": (lambda site: allow(site.signers, site.key, "somebody"), "another key"),
    "another key": (lambda site: site.release(site.stranger), "another key, or the list was changed"),
    "never signed": (lambda site: site.release(None), "the kit is not signed"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_happened_on_the_way_is_refused_in_a_line(site: Site, what: str) -> None:
    change, told = CHANGES[what]
    change(site)
    for words in (("--check",), ()):
        said = site.check(*words)
        assert (said.returncode, said.stdout) == (1, ""), said
        assert said.stderr.startswith("not installed: ")
        assert told in said.stderr
        assert said.stderr.count("\n") == 1


def test_a_link_in_a_files_place_is_refused(site: Site) -> None:
    (site.kit / "sudoers").rename(site.root / "sudoers")
    (site.kit / "sudoers").symlink_to(site.root / "sudoers")
    assert "sudoers is no plain file" in site.check("--check").stderr


def test_a_signed_kit_is_not_installed_where_nothing_says_by_whom(site: Site) -> None:
    site.signers.unlink()
    assert "put the site's key into" in site.check().stderr


def test_a_signature_for_another_purpose_is_none(site: Site) -> None:
    (site.kit / "SHA256SUMS.sig").unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(site.key), "-n", "file", str(site.kit / "SHA256SUMS")], check=True, capture_output=True
    )
    assert "another key" in site.check("--check").stderr


def test_node_kit_signs_and_says_what_keeps_it_from_it(tmp_path: Path) -> None:
    key = key_of(tmp_path, "site")
    said = rackmedic("node-kit", "--out", str(tmp_path / "kit"), "--sign", str(key))
    assert said.returncode == 0, said.stderr
    assert {path.name for path in (tmp_path / "kit").iterdir()} >= {"SHA256SUMS", "SHA256SUMS.sig", "install.sh"}
    assert "PRIVATE" not in "".join(path.read_text() for path in (tmp_path / "kit").iterdir())
    with pytest.raises(Refusal, match=r"--sign .*none"):
        write_kit(tmp_path / "kit", tmp_path / "none")
    (tmp_path / "kit/notes").write_text("x")
    with pytest.raises(Refusal, match="holds notes"):
        write_kit(tmp_path / "kit", key)
