"""examples/gpu_bridge.py: real CUDA memory where there is some, and a clear word where not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "gpu_bridge.py"


@pytest.mark.frameworks
def test_on_a_gpu():
    result = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr
    if result.stdout.startswith("skipped:") and result.stdout.count("\n") == 1:
        pytest.skip(result.stdout.removeprefix("skipped:").strip())
    assert result.stdout.endswith("every address and every value was the same\n")


def test_without_any_library():
    """Isolated from every installed package but hurray, it says what is missing, and succeeds."""
    code = (
        "import runpy, sys\n"
        "sys.modules['cupy'] = sys.modules['torch'] = None\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "skipped: CuPy is not installed; PyTorch is not installed\n"
