"""The container: its build inputs are pinned, it excludes the sandbox, and it runs unprivileged on a read-only root."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.project.size import ROOT

DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
REQUIREMENTS = "deploy/build-requirements.txt"
SHIPPED = {"bot", "graph", "tools", "kb", "pyproject.toml", "uv.lock", "README.md", "LICENSE", REQUIREMENTS}
DATED = re.compile(r"docker\.io/library/debian:[a-z]+-20\d{6}-slim(@sha256:[0-9a-f]{64})?")

# installing or building commands, and the option without which they fetch unpinned inputs
MUST_SAY = {
    r"(?<!uv )pip3? install": "--require-hashes",
    "uv pip install": "--offline",
    "(?:pip wheel|uv build)": "--no-build-isolation",
    "uv sync": "--no-install-project",
}


def instructions(text: str) -> list[tuple[str, str]]:
    """Return (word, rest) of each instruction, with continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def faults(text: str) -> Iterator[str]:
    """Yield what a Dockerfile leaves unpinned or unsafe."""
    rows = instructions(text)
    arguments = dict(rest.split("=", 1) for word, rest in rows if word == "ARG" and "=" in rest)
    last = max(at for at, (word, _) in enumerate(rows) if word == "FROM")
    yield from _outside(rows, arguments)
    final = rows[last + 1 :]
    users = [rest for word, rest in final if word == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", users[-1]):
        yield "user"
    for at, (word, rest) in enumerate(final):
        if word == "VOLUME" and not any(rest in done for kind, done in final[:at] if kind == "RUN"):
            yield "a volume before its folder"
        if word == "VOLUME" and any(kind == "RUN" and rest in done for kind, done in final[at:]):
            yield "a volume that is changed later"


def _outside(rows: list[tuple[str, str]], arguments: Mapping[str, str]) -> Iterator[str]:
    for word, rest in rows:
        if word == "FROM" and (rest.split()[0] != "${BASE}" or not DATED.fullmatch(arguments.get("BASE", ""))):
            yield "base"
        if word == "COPY" and "--from=build" not in rest and not set(rest.split()[:-1]) <= SHIPPED:
            yield "copied"
        if any(safe not in call for command, safe in MUST_SAY.items() for call in re.findall(rf"{command} [^&]*", rest)):
            yield "unhashed"
        if re.search(r"\bcurl\b|\bwget\b", rest) or word == "ADD":
            yield "fetched"


def test_the_dockerfile_leaves_nothing_open() -> None:
    assert list(faults(DOCKERFILE)) == []


@pytest.mark.parametrize(
    ("was", "now", "fault"),
    [
        ("bookworm-20260824-slim\n\n", "bookworm-slim\n\n", "base"),
        ("bookworm-20260824-slim\n\n", "latest\n\n", "base"),
        ("FROM ${BASE}\n", "FROM python:3.11-slim-bookworm\n", "base"),
        ("COPY kb kb", "COPY kb kb\nCOPY deploy deploy", "copied"),
        ("COPY kb kb", "COPY . .", "copied"),
        ("COPY kb kb", "COPY tests tests", "copied"),
        (" --require-hashes -r build-requirements.txt", " 'uv>=0.9'", "unhashed"),
        (" --no-build-isolation", "", "unhashed"),
        (" --no-install-project", "", "unhashed"),
        ("WORKDIR /src", "RUN curl -LsSf https://astral.sh/uv/install.sh | sh", "fetched"),
        ("USER 10001:10001", "USER rackmedic", "user"),
        ("USER 10001:10001", "USER 0", "user"),
        ("USER 10001:10001", "", "user"),
        ("VOLUME /data", "VOLUME /data\nRUN chown 10001 /data", "a volume that is changed later"),
        ("    && install -d -o rackmedic -g rackmedic -m 0700 /data", "    && true", "a volume before its folder"),
    ],
)
def test_what_is_left_open_is_found(was: str, now: str, fault: str) -> None:
    assert was in DOCKERFILE
    assert fault in list(faults(DOCKERFILE.replace(was, now)))


def test_what_builds_the_image_is_fixed_by_version_and_digest() -> None:
    rows = [row.replace("\\\n", " ") for row in re.split(r"\n(?=\S)", (ROOT / REQUIREMENTS).read_text().strip())]
    assert {row.split("==")[0] for row in rows} >= {"uv", "hatchling"}
    for row in rows:
        assert re.match(r"[a-z0-9-]+==[0-9][0-9.]*[ ;]", row), row
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", row), row


def test_developers_get_the_same_uv_as_the_image() -> None:
    assert f"--require-hashes -r {REQUIREMENTS}" in (ROOT / "Makefile").read_text()


def containers() -> Mapping[str, Mapping[str, Any]]:
    return yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", containers())
def test_compose_gives_a_container_nothing_that_it_does_not_need(name: str) -> None:
    row = containers()[name]
    assert (row["read_only"], row["cap_drop"]) == (True, ["ALL"])
    assert row["security_opt"] == ["no-new-privileges:true"]
    assert not row.get("privileged")
    assert "ports" not in row
    folders = [volume.split(":") for volume in row["volumes"]]
    assert all(volume[-1] == "ro" for volume in folders if volume[0].startswith(("/", ".")))


def test_compose_and_the_page_build_on_the_dockerfiles_base() -> None:
    base = dict(rest.split("=", 1) for word, rest in instructions(DOCKERFILE) if word == "ARG")["BASE"]
    assert containers()["rackmedic"]["build"]["args"]["BASE"] == base
    assert f"BASE={base}@sha256:…" in (ROOT / "docs/container.md").read_text()


def test_kubernetes_gives_it_nothing_that_it_does_not_need() -> None:
    pod = yaml.safe_load((ROOT / "deploy/kubernetes/bot.yaml").read_text())["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "@sha256:" in container["image"]
    assert {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")} == {"/data", "/tmp"}
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]


def test_the_image_writes_where_the_page_says() -> None:
    page = (ROOT / "docs/container.md").read_text()
    assert {"/data", "/tmp"} == set(re.findall(r"^\| `(/\w+)` \|", page, re.MULTILINE))
    assert "VOLUME /data" in DOCKERFILE
