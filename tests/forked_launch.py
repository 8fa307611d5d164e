"""Runs `python -m MODULE ARGUMENTS` in a process that was forked, see conftest.py.

Its globals are given: `directory`, `command`, the whole `environment`, and the files `stdout` and
`stderr`.
"""

import os
import runpy
import sys

given = globals()
os.chdir(given["directory"])
os.environ.clear()
os.environ.update(given["environment"])
for stream in ("stdout", "stderr"):
    with open(given[stream], "wb") as file:
        os.dup2(file.fileno(), getattr(sys, stream).fileno())
sys.path.insert(0, given["directory"])
sys.argv = list(given["command"])
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
