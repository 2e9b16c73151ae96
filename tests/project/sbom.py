"""`make sbom`: the shipped packages as CycloneDX 1.6 JSON from uv.lock, with version, digests and, if installed here,
licence. The same lock gives the same document except for time and serial number.
"""

import importlib.metadata
import sys
import tomllib
from collections.abc import Mapping, Sequence

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tests.project.lock import US, Locked, shipped
from tests.project.size import ROOT

LONGEST_LICENSE = 80  # characters; some packages put the full text where the name belongs


def licence(name: str) -> str:
    """Return the installed package's licence name, or ""."""
    try:
        said = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
    named: str = next(iter([*said.get_all("License-Expression", []), *said.get_all("License", []), ""]))
    if named and "\n" not in named and len(named) <= LONGEST_LICENSE:
        return named
    classes = [row.rpartition(" :: ")[2] for row in said.get_all("Classifier", []) if row.startswith("License :: ")]
    return " OR ".join(sorted(classes))


def document(packages: Sequence[Locked]) -> str:
    bom, parts = Bom(), {(one.name, one.version): _component(one) for one in packages}
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bom.metadata.component = us = Component(
        name=US, version=about["version"], type=ComponentType.APPLICATION, licenses=[LicenseFactory().make_from_string(about["license"])]
    )
    for one in packages:
        bom.components.add(parts[one.name, one.version])
        bom.register_dependency(parts[one.name, one.version], _needed(one, parts))
    bom.register_dependency(us, parts.values())
    return JsonV1Dot6(bom).output_as_string(indent=1)


def _component(one: Locked) -> Component:
    files = [
        ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION, url=XsUri(url), hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)]
        )
        for url, digest in one.digests.items()
    ]
    named = licence(one.name)
    return Component(
        name=one.name,
        version=one.version,
        bom_ref=f"{one.name}@{one.version}",
        purl=PackageURL("pypi", None, one.name, one.version),
        external_references=files,
        licenses=[LicenseFactory().make_from_string(named)] if named else [],
    )


def _needed(one: Locked, parts: Mapping[tuple[str, str], Component]) -> list[Component]:
    return [part for (name, version), part in parts.items() if (name, version) in one.needs or (name, "") in one.needs]


if __name__ == "__main__":
    sys.stdout.write(document(shipped()) + "\n")
