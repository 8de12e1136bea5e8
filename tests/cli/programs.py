"""Programs that tests put into their directory, to be named on the command line."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

SHOP = """
import bee_core as bee

class SendEmail(bee.Job):
    to: str
    subject: str = ""

class Resize(bee.Job, tag="resize.v2"):
    path: str
    width: int = 200

hive = bee.Hive()
mail = hive.queue("mail", SendEmail | Resize)
films = hive.queue("films", Resize)
"""


def program(text: str = SHOP, name: str = "shop") -> str:
    """Write it into the current directory; return the name of the module."""
    Path(f"{name}.py").write_text(textwrap.dedent(text))
    sys.modules.pop(name, None)  # another test's
    importlib.invalidate_caches()
    return name
