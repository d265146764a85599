"""Which titles a person wrote, and which a library made up from a name that is sent anyway."""

from __future__ import annotations

import re
from typing import Any


def is_generated_title(title: Any, name: str) -> bool:
    """Whether `title` only repeats `name`, the property or definition it belongs to.

    Pydantic writes `page_size` as "Page Size", and a class as its own name; a definition's key is
    the class's name, with a module before it where two are called the same.
    """
    if not isinstance(title, str) or not name:
        return False
    if title in (name, _pydantic_title(name)):
        return True
    key = re.sub(r"[^A-Za-z0-9.\-_]", "_", title)  # `Box[int]` is defined as `Box_int_`
    return name == key or name.endswith(f"__{key}")


def _pydantic_title(name: str) -> str:
    return name.title().replace("_", " ").strip()
