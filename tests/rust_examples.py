"""Programs of the examples: of the lab's, which use the Rust driver, and of the server's. Used by the tests of the drivers."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def built_example(name, package="lab"):
    """The program: that of the run of all tests, which has built every example, or one that is built now."""
    folder = os.environ.get("PLIMSOLL_EXAMPLES")
    if folder:
        return str(pathlib.Path(folder) / name)
    command = [os.environ.get("CARGO", "cargo"), "build", "--quiet", "--package", package, "--example", name]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert made.returncode == 0, made.stderr
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(ROOT / target / "debug/examples" / name)
