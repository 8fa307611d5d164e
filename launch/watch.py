r"""Shows how far a sweep is: runs that are done, their curves, the time left, failures.

Examples:
    python -m launch.watch --workdir=runs/fig6
    python -m launch.watch --workdir=runs/fig6 --once
    python -m launch.watch --workdir=runs/fig6 --html=fig6.html --open

The folder is only read, so this works during a sweep in another terminal, the tasks of a SLURM
array, or a TPU's processes, wherever the folder can be read. --html also writes a page, which
reloads itself; without --once both continue until all runs are done.
"""

import sys
import time

from absl import flags

from launch import _browser, _cli
from lsa_jax import user_files
from lsa_jax.reporting import files, watch
from lsa_jax.sweep.points import recorded_points

flags.adopt_module_key_flags(_browser)
_cli.declare("workdir")

_HTML = _cli.define_path("html", None, "File to write as a page that refreshes itself.")
_EVERY = flags.DEFINE_float("every", 5.0, "Seconds between two looks.", lower_bound=1.0)
_ONCE = flags.DEFINE_bool("once", False, "Look once and end.")

_CLEAR = "\033[H\033[J"


def main() -> None:
    """Looks into --workdir until all is done."""
    workdir = _cli.workdir()
    target = user_files.output_file("html", _HTML.value)
    config, points = recorded_points(workdir)
    ids = [point.id for point in points]
    opened = False
    while True:
        state = watch.read(workdir, ids, config.get("title") or workdir.name, time.time())
        clear = _CLEAR if sys.stdout.isatty() and not _ONCE.value else ""
        print(clear + watch.text(state), flush=True)
        if target is not None:
            files.write_text(target, watch.html(state, workdir, _EVERY.value))
            if not opened:
                _browser.open_page(target)
                opened = True
        if state.done or _ONCE.value:
            return
        if not clear:
            print()
        time.sleep(_EVERY.value)


if __name__ == "__main__":
    _cli.run(main)
