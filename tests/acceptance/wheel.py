"""The wheel, as it would be published, and a place to install it in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """The wheel of what is in the repository now. Needs hatchling, and no network."""
    pip = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*pip, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def plain_environment() -> dict[str, str]:
    """That of somebody who has just logged in: no environment of ours, no settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BEE_", "PYTHON", "PYTEST", "VIRTUAL_ENV", "COV_"))
    }
    ours = str(Path(sys.prefix) / "bin")
    kept["PATH"] = os.pathsep.join(part for part in kept["PATH"].split(os.pathsep) if part != ours)
    return kept


def borrow(venv: Path, wheel: Path) -> None:
    """Make an environment with the wheel in it, and what it needs lent by ours: no network.

    Of ours only the directory is lent, not what its own .pth files add; so bee is the wheel's.
    """
    create = [sys.executable, "-m", "venv", "--without-pip", str(venv)]
    subprocess.run(create, check=True, capture_output=True)
    site = next((venv / "lib").glob("python*")) / "site-packages"
    lent = next((Path(sys.prefix) / "lib").glob("python*")) / "site-packages"
    (site / "lent.pth").write_text(f"{lent}\n")
    install = [sys.executable, "-m", "zipfile", "-e", str(wheel), str(site)]
    subprocess.run(install, check=True, capture_output=True)
    bee = venv / "bin" / "bee"  # what pip writes for the entry point
    bee.write_text(
        f"#!{venv}/bin/python\nimport sys\nfrom bee_core.cli import main\nsys.exit(main())\n"
    )
    bee.chmod(0o755)
