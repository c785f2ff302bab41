"""Runs an example and compares what it prints, and its exit status, with what is expected.

expect_output.py STATUS EXPECTED-FILE PROGRAM [ARGUMENT]...
"""

import difflib
import pathlib
import subprocess
import sys

status, expected_file, *command = sys.argv[1:]
run = subprocess.run(command, stdout=subprocess.PIPE, check=False)
found = run.stdout.decode().splitlines()
expected = pathlib.Path(expected_file).read_text(encoding="utf-8").splitlines()

faults = list(difflib.unified_diff(expected, found, expected_file, "what was printed", lineterm=""))
if run.returncode != int(status):
    faults.append(f"exit status {run.returncode}; expected {status}")
if faults:
    sys.exit("\n".join(faults))
