"""SKU profiles: expected values of a healthy machine model, with sources.

What is not written down is None, never a guess.
"""

import fnmatch
import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Strict, model_validator

from kb.catalogues.accelerators import PRECISIONS, Accelerator
from kb.fact_keys import find_key
from kb.pci_address import normalize_bdf
from kb.schema import SomeTexts, StrictModel, Text
from kb.yaml_files import Problems, list_yaml_files, read_document, validate_document
from tools.fact import Fact, Status, Value

BUILT_IN_PROFILES = Path(__file__).parent / "profiles"


class BadSku(ValueError):
    """A profile cannot be used. The message lists every problem with its file and line."""


@dataclass(frozen=True, slots=True)
class Sku:
    """One machine model. `bus` lists GPU addresses, gpu0 first; empty if machines differ."""

    name: str
    title: str
    products: tuple[str, ...]
    gpus: int
    bus: tuple[str, ...] = ()
    expect: Mapping[str, Value] = field(default_factory=dict)
    devices: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    accelerator: Accelerator | None = None  # its GPU as described by the site; None to use the catalogue's

    def get_expected(self, key: str, device: str | None) -> Value:
        """Return the expected value or None. A device's own row wins; null there disables the expectation."""
        device_values = self.devices.get(device or "", {})
        return device_values[key] if key in device_values else self.expect.get(key)

    def matches_product(self, product: str) -> bool:
        return any(fnmatch.fnmatch(product.lower(), pattern.lower()) for pattern in self.products)


def load_skus(*dirs: Path) -> dict[str, Sku]:
    """Load built-in profiles, then those of `dirs`, which replace by name. BadSku lists all problems."""
    return dict(_load_built_in()) | _read_folders(dirs)


@functools.cache
def _load_built_in() -> Mapping[str, Sku]:
    return _read_folders((BUILT_IN_PROFILES,))


def _read_folders(dirs: Iterable[Path]) -> dict[str, Sku]:
    problems = Problems()
    skus: dict[str, Sku] = {}
    paths = [path for folder in dirs for path in list_yaml_files(folder)]
    for path in paths:
        document = read_document(path, problems)
        profile = validate_document(document, _ProfileModel, problems) if document else None
        skus |= {profile.name: profile.sku} if profile else {}
    if problems.found:
        raise BadSku("\n".join(problems.found))
    return skus


def guess_sku(facts: Iterable[Fact], skus: Mapping[str, Sku]) -> Sku | None:
    """Return the profile for a host's product name, preferring a matching bus table, then the GPU count.

    A host with half the profile's GPUs or fewer, or with more, is a different machine, unless they sit at the profile's
    addresses.
    """
    own_facts = list(facts)
    products = Counter(str(f.value) for f in own_facts if f.key == "gpu.product" and f.status is Status.OK)
    if not products:
        return None
    addresses = {str(f.value) for f in own_facts if f.key == "gpu.bdf"}
    count = sum(products.values())
    product = products.most_common(1)[0][0]

    def has_bus_addresses(sku: Sku) -> bool:
        return bool(addresses) and addresses <= set(sku.bus)

    same_product = [sku for sku in skus.values() if sku.matches_product(product)]
    fitting = [sku for sku in same_product if has_bus_addresses(sku) or sku.gpus / 2 < count <= sku.gpus]
    return max(fitting, key=lambda sku: (has_bus_addresses(sku), sku.gpus == count), default=None)


def find_product(facts: Iterable[Fact]) -> str:
    """Return the host's most common GPU product name, or ""."""
    product_counts = Counter(str(fact.value) for fact in facts if fact.key == "gpu.product" and fact.status is Status.OK)
    return product_counts.most_common(1)[0][0] if product_counts else ""


def _validate_address(text: str) -> str:
    if (address := normalize_bdf(text)) is None:
        raise ValueError(f"{text!r} is not a PCI address")
    return address


def _validate_key(key: str) -> str:
    if find_key(key) is None:
        raise ValueError(f"{key!r} is no fact key")
    return key


_FactKey = Annotated[Text, AfterValidator(_validate_key)]


class _ExpectedModel(StrictModel):
    key: _FactKey
    value: Any
    source: Text

    @model_validator(mode="before")
    @classmethod
    def _validate_row(cls, given: Any) -> Any:
        if not isinstance(given, dict) or set(given) != {"key", "value", "source"}:
            raise ValueError(f"{given!r} needs key, value and source, and nothing else")
        return given

    @property
    def typed(self) -> Value:
        """The value, as a float if the key's values are floats."""
        fact_key = find_key(self.key)
        is_int = isinstance(self.value, int) and not isinstance(self.value, bool)
        value: Value = float(self.value) if fact_key and fact_key.kind == "float" and is_int else self.value
        return value


_Rate = Annotated[float, Field(gt=0, le=1e6)]
_Clock = Annotated[int, Strict(), Field(ge=100, le=10_000)]


class _PerformanceModel(StrictModel):
    """A GPU that the catalogue does not know.

    Units: TFLOP/s of dense products, GB/s in one direction, Gbit/s of its share of the adapters, MHz.
    """

    arch: Text = ""
    bf16: _Rate | None = None
    fp16: _Rate | None = None
    fp8: _Rate | None = None
    tf32: _Rate | None = None
    memory: _Rate
    host: _Rate
    host_link: Text = "PCIe"
    nvlink: _Rate | None = None
    domain: Annotated[int, Strict(), Field(ge=1, le=4096)] = 1
    in_switch: Annotated[bool, Strict()] = False
    network: _Rate | None = None
    rated_mhz: _Clock
    max_mhz: _Clock
    source: Text

    @model_validator(mode="after")
    def _validate_row(self) -> "_PerformanceModel":
        if not any(getattr(self, precision) for precision in PRECISIONS):
            raise ValueError(f"needs the rate of one of {', '.join(PRECISIONS)}")
        if (self.nvlink is None) is (self.domain > 1):
            raise ValueError("nvlink and a domain of more than one GPU go together")
        return self

    def build_accelerator(self, name: str, title: str, products: tuple[str, ...], gpus: int) -> Accelerator:
        rates = {precision: getattr(self, precision) for precision in PRECISIONS}
        return Accelerator(
            name, self.arch, title, products, tuple((precision, rate * 1e12) for precision, rate in rates.items() if rate), self.memory * 1e9,
            gpus, self.domain, (self.nvlink or 0.0) * 1e9, self.in_switch, self.host_link, self.host * 1e9, (self.network or 0.0) * 1e9 / 8,
            self.rated_mhz, self.max_mhz, self.source, self.source,
        )  # fmt: skip


class _ProfileModel(StrictModel):
    name: Text
    title: Text
    products: SomeTexts
    gpus: Annotated[int, Strict(), Field(ge=1)]
    bus: tuple[Annotated[Text, AfterValidator(_validate_address)], ...] = ()
    expect: tuple[_ExpectedModel, ...] = ()
    devices: dict[str, dict[_FactKey, Any]] = Field(default_factory=dict)
    performance: _PerformanceModel | None = None

    @property
    def sku(self) -> Sku:
        return Sku(
            name=self.name,
            title=self.title,
            products=self.products,
            gpus=self.gpus,
            bus=self.bus,
            expect={
                "gpu.count": self.gpus,
                "pcie.gpu_count": self.gpus,
                **{expectation.key: expectation.typed for expectation in self.expect},
            },
            devices=self.devices,
            sources={expectation.key: expectation.source for expectation in self.expect},
            accelerator=self.performance.build_accelerator(self.name, self.title, self.products, self.gpus) if self.performance else None,
        )
