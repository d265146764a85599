"""Find strings shaped like credentials: `python -m tests.secret_scan FILE...` exits 1 on a find."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SHAPES = (
    re.compile(r"AIza[0-9A-Za-z_-]{35}"),  # Google API key
    re.compile(r"ya29\.[0-9A-Za-z_-]{20,}"),  # OAuth access token
    re.compile(r"-----BEGIN (?:RSA )?PRIVATE KEY-----\n[A-Za-z0-9+/]"),
)


def find_secrets(text: str) -> list[str]:
    """The first characters of everything in a text that looks like a credential."""
    return [match[0][:12] for shape in SHAPES for match in shape.finditer(text)]


def main(paths: list[str]) -> int:
    """Print what was found, by file."""
    found = 0
    for path in paths:
        for secret in find_secrets(Path(path).read_text(errors="replace")):
            print(f"{path}: {secret}...")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
