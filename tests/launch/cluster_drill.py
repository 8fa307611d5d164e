r"""Random kills under load: no run is lost, none has two results.

    python tests/launch/cluster_drill.py workers FOLDER --groups=200 --minutes=10
    python tests/launch/cluster_drill.py clients FOLDER --groups=40 --clients=20

`workers`: launch.cluster with four workers, one of which is killed every few seconds, and sometimes
the command itself, which is then given again. `clients`: many launch.groups at once on one folder.
Both compare every result with that of an undisturbed launch.sweep, and print numbers as JSON.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
CLOCK = ("seconds", "images_per_second", "peak_fraction", "matrix_seconds")


def fields(groups: int, epochs: int) -> list[str]:
    """Returns the configuration of a sweep of so many groups of one run, half of each learner."""
    noise = tuple(round(0.01 * n, 2) for n in range(groups // 2))
    return [
        "--config=configs/quickstart.py:quick",
        "--config.max_replicas=1",
        "--config.sweep.learner=('network', 'ntk_infinite')",
        "--config.sweep.seed=(0,)",
        f"--config.sweep.noise={noise}",
        f"--config.network.epochs={epochs}",
        "--config.network.checkpoint_every=5",
    ]


def start(script: str, *words: str, log: Path) -> subprocess.Popen:
    """Starts a command of the project, with its output at the end of a file."""
    with log.open("a") as file:
        command = [sys.executable, "-m", f"launch.{script}", *words]
        return subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)


def results(workdir: Path) -> dict[str, str]:
    """Returns a hash of each run's numbers, without its times, and of its history."""
    found = {}
    for path in workdir.glob("runs/*/result.json"):
        result = json.loads(path.read_text())
        kept = {name: value for name, value in result.items() if name not in CLOCK}
        history = (path.parent / "metrics.jsonl").read_bytes()
        content = json.dumps(kept, sort_keys=True).encode() + history
        found[path.parent.name] = hashlib.sha256(content).hexdigest()
    return found


class Witness:
    """Sees each result when it appears, and whether it is written again with other numbers."""

    def __init__(self, workdir: Path) -> None:
        """Watches a sweep's folder."""
        self._workdir, self._inodes = workdir, {}
        self.first: dict[str, str] = {}
        self.again = self.different = 0

    def look(self) -> None:
        """Compares the results with those seen before."""
        inodes = {p: p.stat().st_ino for p in self._workdir.glob("runs/*/result.json")}
        written = [path for path, inode in inodes.items() if self._inodes.get(path) != inode]
        self._inodes = inodes
        now = results(self._workdir) if written else {}
        for path in written:
            name = path.parent.name
            self.again += name in self.first
            self.different += self.first.setdefault(name, now[name]) != now[name]


def workers(client: psutil.Process) -> list[psutil.Process]:
    """Returns the worker processes of a local cluster."""
    try:
        return [p for p in client.children(recursive=True) if "spawn_main" in " ".join(p.cmdline())]
    except psutil.Error:
        return []


def drill_workers(folder: Path, words: list[str], minutes: float, every: float, seed: int) -> dict:
    """Runs the sweep with random kills for so many minutes, and then to its end."""
    draw, workdir, log = random.Random(seed), folder / "killed", folder / "killed.log"
    command = ["cluster", "--local=4", *words, f"--workdir={workdir}"]
    witness, counts = Witness(workdir), {"workers_killed": 0, "clients_killed": 0, "commands": 1}
    client, begun = start(*command, log=log), time.monotonic()
    next_kill = begun + every
    while (code := client.poll()) != 0:
        if code is not None:
            counts["commands"] += 1
            client = start(*command, log=log)
        time.sleep(0.5)
        witness.look()
        if time.monotonic() < next_kill or time.monotonic() - begun > 60 * minutes:
            continue
        next_kill = time.monotonic() + draw.uniform(0.2, 1.8) * every
        running = workers(psutil.Process(client.pid))
        if draw.random() < 0.05:
            client.send_signal(signal.SIGKILL)
            client.wait()
            counts["clients_killed"] += 1
        elif running:
            draw.choice(running).kill()
            counts["workers_killed"] += 1
    witness.look()
    counts |= {"written_again": witness.again, "written_differently": witness.different}
    return counts | {"minutes": round((time.monotonic() - begun) / 60, 1)}


def _has_jax(process: subprocess.Popen) -> bool:
    try:
        return "jaxlib" in Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return False


def drill_clients(folder: Path, words: list[str], count: int) -> dict:
    """Runs the sweep by many launch.groups at once."""
    workdir, log = folder / "killed", folder / "killed.log"
    start("sweep", *words, f"--workdir={workdir}", "--record_only", log=log).wait()
    witness, begun = Witness(workdir), time.monotonic()
    clients = [start("groups", f"--workdir={workdir}", log=log) for _ in range(count)]
    with_jax = set()
    while any(client.poll() is None for client in clients):
        with_jax |= {client.pid for client in clients if _has_jax(client)}
        witness.look()
        time.sleep(0.1)
    witness.look()
    failed = sum(client.returncode != 0 for client in clients)
    return {
        "clients": count,
        "failed_clients": failed,
        "imported_jax": len(with_jax),
        "written_again": witness.again,
        "written_differently": witness.different,
        "minutes": round((time.monotonic() - begun) / 60, 1),
    }


def compared(folder: Path, drill: Callable[[], dict], words: list[str]) -> dict:
    """Runs a drill, then the sweep undisturbed, and compares the results."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = drill()
    whole = start("sweep", *words, f"--workdir={folder / 'whole'}", log=folder / "whole.log")
    assert whole.wait() == 0, folder / "whole.log"
    expected, found = results(folder / "whole"), results(folder / "killed")
    differ = sum(found[name] != expected[name] for name in expected.keys() & found.keys())
    lost = len(expected.keys() - found.keys())
    return {"runs": len(expected), "lost": lost, "differ": differ, **counts}


def main() -> None:
    """Runs the drill that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("drill", choices=["workers", "clients"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--every", type=float, default=10, help="seconds between kills")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    words = fields(given.groups, given.epochs)

    def drill() -> dict:
        if given.drill == "clients":
            return drill_clients(given.folder, words, given.clients)
        return drill_workers(given.folder, words, given.minutes, given.every, given.seed)

    print(json.dumps(compared(given.folder, drill, words)))


if __name__ == "__main__":
    main()
