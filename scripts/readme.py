# SPDX-License-Identifier: Apache-2.0
"""Writes the demo's plot, digest and environment of a release into README.md and docs: python scripts/readme.py results/demo"""

import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN = Path("runs", "dumbbell-10m-dctcp-s1")


def main() -> None:
    demo = Path(sys.argv[1])
    manifest = json.loads((demo / RUN / "manifest.json").read_text())
    shutil.copy(demo / "demo.png", ROOT / "docs" / "demo.png")
    environment = "\n".join(f"    {name}: {value}" for name, value in manifest["environment"].items())
    text = (ROOT / "README.md").read_text()
    text = re.sub(r"(In dc-gym )\S+( the demo's)", rf"\g<1>{manifest['dcgym']}\g<2>", text)
    text = re.sub(r"(has the digest\n\n)    \S+", rf"\g<1>    {manifest['digest']}", text)
    pattern = r"(lists the same environment:\n\n)(    .*\n)+"
    text = re.sub(pattern, lambda match: f"{match[1]}    fingerprint: {manifest['fingerprint']}\n{environment}\n", text)
    (ROOT / "README.md").write_text(text)
    tutorial = ROOT / "docs" / "tutorial.md"  # its first run is the demo's
    tutorial.write_text(re.sub(r"(digest +)[0-9a-f]{64}", rf"\g<1>{manifest['digest']}", tutorial.read_text()))


if __name__ == "__main__":
    main()
