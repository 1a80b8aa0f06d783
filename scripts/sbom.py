#!/usr/bin/env python3
"""Complete the SBOM of uv (CycloneDX 1.5): licences, a fixed date and serial number.

    uv export --frozen --no-dev --format cyclonedx1.5 | python scripts/sbom.py

uv lists every locked package with its files and their SHA-256, and which requires which. Licences
are those of the installed packages. Reads $SOURCE_DATE_EPOCH, so that the same commit gives the
same bytes.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

_CLASSIFIER = "License :: OSI Approved :: "
# uv's mark of a package that some platforms do not need.
_MARKER = "uv:package:marker"


def read_licence(name: str) -> dict[str, Any] | None:
    """Return the licence of an installed package as CycloneDX has it; None if it is unknown."""
    try:
        about = metadata(name).json
    except PackageNotFoundError:
        return None
    if expression := about.get("license_expression"):
        return {"expression": expression}
    # Old metadata: one short line is a name, more is the text of the licence.
    classified = [
        line.removeprefix(_CLASSIFIER)
        for line in about.get("classifier", ())
        if line.startswith(_CLASSIFIER)
    ]
    text = str(about.get("license", "")).strip()
    names = [text] if text and len(text) < 80 and "\n" not in text else classified
    return {"license": {"name": " or ".join(names)}} if names else None


def complete(bom: dict[str, Any], epoch_s: int) -> dict[str, Any]:
    """Add licences, and replace what differs at every call.

    Raises ValueError for a package without licence that this platform needs.
    """
    root = bom["metadata"]["component"]
    for component in (root, *bom["components"]):
        licence = read_licence(component["name"])
        marked = any(entry["name"] == _MARKER for entry in component.get("properties", ()))
        if licence is None and not marked:
            raise ValueError(f"{component['name']} is not installed, or names no licence")
        if licence is not None:
            component["licenses"] = [licence]
    root["purl"] = f"pkg:pypi/{root['name']}@{root['version']}"
    moment = datetime.fromtimestamp(epoch_s, UTC)
    bom["metadata"]["timestamp"] = moment.isoformat().replace("+00:00", "Z")
    del bom["serialNumber"]
    content = json.dumps(bom, sort_keys=True)
    bom["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, content).urn
    return bom


def main() -> None:
    bom = complete(json.load(sys.stdin), int(os.environ["SOURCE_DATE_EPOCH"]))
    json.dump(bom, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
