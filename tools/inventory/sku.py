"""SKU profiles: what a healthy machine of one model shows. Data with sources; an expectation nobody wrote down is None, never a guess."""

import fnmatch
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kb.address import bdf
from kb.keys import find
from tools.fact import Fact, Status, Value

BUILT_IN = Path(__file__).parent / "profiles"


class BadSku(ValueError):
    """A profile that cannot be used. Lists every problem with its file."""


@dataclass(frozen=True, slots=True)
class Sku:
    """One model of machine. `bus` lists the GPUs' addresses in order, gpu0 first; empty where machines differ."""

    name: str
    title: str
    products: tuple[str, ...]
    gpus: int
    bus: tuple[str, ...] = ()
    expect: Mapping[str, Value] = field(default_factory=dict)
    devices: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def expected(self, key: str, device: str | None) -> Value:
        """What `key` should be on `device`, or None where nothing is expected. A device's own row wins, a null there silences."""
        own = self.devices.get(device or "", {})
        return own[key] if key in own else self.expect.get(key)

    def fits(self, product: str) -> bool:
        """Whether nvidia-smi's product name is one of this SKU's."""
        return any(fnmatch.fnmatch(product.lower(), pattern.lower()) for pattern in self.products)


def load_skus(*dirs: Path) -> dict[str, Sku]:
    """The built-in profiles, then those of `dirs`; a later one of the same name replaces. BadSku tells all problems at once."""
    found: dict[str, Sku] = {}
    problems: list[str] = []
    for folder in (BUILT_IN, *dirs):
        for path in sorted(folder.glob("*.yaml")):
            sku, bad = _read(path)
            problems += [f"{path}: {why}" for why in bad]
            if sku:
                found[sku.name] = sku
    if problems:
        raise BadSku("\n".join(problems))
    return found


def guess(facts: Iterable[Fact], skus: Mapping[str, Sku]) -> Sku | None:
    """The profile that fits one host's product name, preferring the right bus table, then the right GPU count.

    A host that shows half the GPUs or fewer, or more, is another machine with the same GPUs, unless they sit where the profile's do.
    """
    known = list(facts)
    products = Counter(str(f.value) for f in known if f.key == "gpu.product" and f.status is Status.OK)
    if not products:
        return None
    addresses = {str(f.value) for f in known if f.key == "gpu.bdf"}
    count = sum(products.values())
    product = products.most_common(1)[0][0]

    def in_place(sku: Sku) -> bool:
        return bool(addresses) and addresses <= set(sku.bus)

    fitting = [sku for sku in skus.values() if sku.fits(product) and (in_place(sku) or sku.gpus < 2 * count <= 2 * sku.gpus)]
    return max(fitting, key=lambda sku: (in_place(sku), sku.gpus == count), default=None)


def product_of(facts: Iterable[Fact]) -> str:
    """What most GPUs of one host call themselves, "" when none said."""
    named = Counter(str(fact.value) for fact in facts if fact.key == "gpu.product" and fact.status is Status.OK)
    return named.most_common(1)[0][0] if named else ""


FIELDS = {"name", "title", "products", "gpus", "bus", "expect", "devices"}
EXPECT = {"key", "value", "source"}


def _read(path: Path) -> tuple[Sku | None, list[str]]:
    try:
        row = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as why:
        return None, [f"not YAML: {why}"]
    if not isinstance(row, dict):
        return None, ["expected a mapping"]
    bad = _problems(row)
    if bad:
        return None, bad
    return _sku(row), []


def _problems(row: Mapping[str, Any]) -> list[str]:
    bad = [f"unknown field {name!r}" for name in sorted(set(row) - FIELDS)]
    bad += [f"{name} is missing" for name in ("name", "title", "products", "gpus") if not row.get(name)]
    bad += [f"bus: {address!r} is not a PCI address" for address in row.get("bus", ()) if bdf(str(address)) is None]
    rows = row.get("expect", [])
    bad += [f"expect: {entry!r} needs key, value and source, and nothing else" for entry in rows if set(entry) != EXPECT]
    keys = [entry.get("key", "") for entry in rows] + [key for own in row.get("devices", {}).values() for key in own]
    return bad + [f"{key!r} is no fact key" for key in keys if find(key) is None]


def _typed(key: str, value: Value) -> Value:
    """A whole number written for a key that counts in fractions."""
    row = find(key)
    return float(value) if row and row.kind == "float" and isinstance(value, int) and not isinstance(value, bool) else value


def _sku(row: Mapping[str, Any]) -> Sku:
    expect: Sequence[Mapping[str, Any]] = row.get("expect", [])
    return Sku(
        name=row["name"],
        title=row["title"],
        products=tuple(row["products"]),
        gpus=row["gpus"],
        bus=tuple(str(bdf(str(address))) for address in row.get("bus", ())),
        expect={
            "gpu.count": row["gpus"],
            "pcie.gpu_count": row["gpus"],
            **{entry["key"]: _typed(entry["key"], entry["value"]) for entry in expect},
        },
        devices=row.get("devices", {}),
        sources={entry["key"]: entry["source"] for entry in expect},
    )
