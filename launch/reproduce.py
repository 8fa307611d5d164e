r"""Runs every configuration of a paper, one sweep after the other, and writes one report on all.

Examples:
    python -m launch.reproduce --paper=lsa --workdir=runs/lsa --data_dir=data
    python -m launch.reproduce --paper=lsa --workdir=runs/lsa --data_dir=data \
        --only=fig3_dynamics,lemmas
    python -m launch.reproduce --paper=transformers --scale=full --workdir=runs/full --dry_run
    python -m launch.reproduce --gallery=docs/gallery --reports=runs/lsa,runs/resnet

Each sweep is a command of its own, which `--dry_run` prints, with the folder of its configuration's
name. The same command again runs the unfinished sweeps, also after a kill. A sweep whose data set
is missing is reported as not run; exit status 1 means another failure. `--scale=quick`, a few
seconds a sweep, shows that everything runs but none of the claims. `--gallery` publishes finished
sweeps with their results, and makes reports of an earlier version again.
"""

import sys
from pathlib import Path

from absl import flags

from launch import _cli
from lsa_jax.errors import InputError
from lsa_jax.reporting import gallery, locks, papers, reproduction
from lsa_jax.reporting.write import command_line
from lsa_jax.sweep import catalog

_cli.declare("workdir", "data_dir")

_PAPER = flags.DEFINE_enum("paper", None, list(papers.PAPERS), "Whose configurations to run.")
_SCALE = flags.DEFINE_enum(
    "scale", "small", list(papers.VARIANTS), "Sizes: for 2 CPU cores, as published, or for tests."
)
_ONLY = flags.DEFINE_list("only", [], "Only these configurations, by name: NAME,NAME.")
_CONFIGS = _cli.define_path("configs", "configs", "Folder of configurations.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the commands and run nothing.")
_GALLERY = _cli.define_path(
    "gallery", None, "Folder of the documentation's gallery, which takes finished sweeps."
)
_REPORTS = _cli.define_path(
    "reports",
    [],
    "Folders of reproductions or sweeps to publish apart from --workdir.",
    several=True,
)


def _reproduce(workdir: Path) -> int:
    """Runs the unfinished sweeps of a paper; returns 1 if one failed."""
    _cli.data_dir()  # raises where it is missing
    of_paper = (_PAPER.value, _SCALE.value, workdir, Path(_CONFIGS.value), _ONLY.value)
    request = reproduction.Request(*of_paper, _cli.DATA_DIR.value)
    sweeps = reproduction.planned(request)
    reproduction.with_earlier(sweeps, request)  # raises before the folder is touched
    if _DRY_RUN.value:
        for sweep in filter(request.wants, sweeps):
            print(sweep.command)
        return 0
    with locks.alone(workdir):
        sweeps = reproduction.with_earlier(sweeps, request)
        sweeps = reproduction.run_all(sweeps, request, command_line(sys.argv))
    return int(any(sweep.status in reproduction.WITH_FAILURES for sweep in sweeps))


def _publish(folders: list[str | Path]) -> None:
    """Puts finished sweeps into the gallery, renews its reports, and writes its pages."""
    from lsa_jax.sweep import gallery_pages, publishing

    place = Path(_GALLERY.value)
    for line in publishing.publish(place, publishing.finished(folders)):
        print(line, flush=True)
    for line in publishing.renew(place):
        print(line, flush=True)
    pages = gallery_pages.write(place, catalog.entries(Path(_CONFIGS.value), place))
    print(f"wrote {len(pages)} pages in {place}")


def _check_flags() -> None:
    """Raises unless there is something to run or to publish, and a place for it."""
    if not _GALLERY.value:
        _cli.required(_PAPER, f"one of {', '.join(papers.PAPERS)}, or --gallery=DIR")
    if _ONLY.present and not _ONLY.value:  # as of a variable that is not set
        raise InputError("--only is empty; accepted: names of configurations, or without it all")
    of_paper = ("workdir", "only", "scale", "data_dir", "dry_run")
    for whole, parts in ((_GALLERY, ("reports",)), (_PAPER, of_paper)):
        for name in parts:
            if flags.FLAGS[name].present and not whole.value:
                raise InputError(f"--{name} is given without --{whole.name}; accepted: both")
    if _GALLERY.value:  # raises before sweeps run for hours
        from lsa_jax.sweep import publishing  # which imports jax

        gallery.read(Path(_GALLERY.value))
        publishing.finished(_REPORTS.value)


def main() -> int:
    """Runs --paper, and publishes in --gallery; returns 1 if a sweep failed."""
    _check_flags()
    workdir = _cli.workdir() if _PAPER.value else None
    if workdir is not None and workdir.exists() and not workdir.is_dir():
        raise InputError(f"--workdir {workdir} is a file; accepted: a folder, or a new name")
    status = _reproduce(workdir) if workdir else 0
    if _GALLERY.value and not _DRY_RUN.value:
        _publish([*([workdir] if workdir else []), *_REPORTS.value])
    return status


if __name__ == "__main__":
    _cli.run(main)
