"""Plant faults in the modules of each group, run the group's tests, and report the faults that no test noticed.

`make mutation` runs it; ARGS="--help" tells its options. It works in a copy of the tree, one fault at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.mutation.mutants import Mutant, sample

ROOT = Path(__file__).resolve().parents[2]
GROUPS = Path(__file__).with_name("groups.toml")
TEST_LIMIT = 20  # seconds for one test, before it counts as hanging; half the time of all if that is more


@dataclass
class Result:
    """What became of a group's mutants; `timeouts` are hangs, which the tests noticed, too."""

    killed: int = 0
    timeouts: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    operators: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def mutants(self) -> int:
        """The number of mutants."""
        return self.killed + self.timeouts + len(self.survivors)

    @property
    def rate(self) -> float:
        """The part of the mutants that the tests noticed, from 0 to 1."""
        return (self.killed + self.timeouts) / max(self.mutants, 1)

    def as_json(self) -> dict[str, Any]:
        """Return the figures, and each survivor with its place and difference."""
        survivors = [
            {"file": each.path, "line": each.line, "operator": each.operator, "diff": each.diff}
            for each in self.survivors
        ]
        return {
            "mutants": self.mutants,
            "killed": self.killed,
            "timeouts": self.timeouts,
            "survived": len(survivors),
            "rate": round(self.rate, 3),
            "seconds": round(self.seconds),
            "operators": dict(self.operators),
            "survivors": survivors,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups that the command line names; return 1 if one of them is below its least rate."""
    options = parse(arguments)
    groups = groups_of(options.config)
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = copy(options.root, Path(folder, "tree"))
        for name in options.groups or groups:
            results[name] = judge(tree, name, groups[name], options.sample or groups[name]["sample"], options.seed)
            show(name, results[name])
            if options.json:
                report = {each: result.as_json() for each, result in results.items()}
                options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    low = [name for name, result in results.items() if result.rate < groups[name]["least"]]
    for name in low:
        print(f"{name}: the tests notice fewer faults than {groups[name]['least']:.0%}")
    return int(bool(low))


def groups_of(config: Path) -> dict[str, dict[str, Any]]:
    """Return the groups that the file describes, by name."""
    return tomllib.loads(config.read_text(encoding="utf-8"))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run", description=__doc__.partition("\n")[0])
    parser.add_argument("groups", nargs="*", help="the groups to run; all of the file without any")
    parser.add_argument("--config", type=Path, default=GROUPS, help="the file that describes the groups")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to copy")
    parser.add_argument("--sample", type=int, help="mutants in each group, instead of the file's number")
    parser.add_argument("--seed", default="1", help="another seed draws other mutants")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    return parser.parse_args(arguments)


def copy(root: Path, tree: Path) -> Path:
    """Copy the tree, without its environment, its history and its caches."""
    return shutil.copytree(root, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "out"))


def found(tree: Path, globs: Sequence[str]) -> list[str]:
    """Return the files that the globs find, in their order, each once; a glob with "!" in front takes files out.

    Raises `FileNotFoundError` for a glob that finds nothing.
    """
    files: dict[str, None] = {}
    for glob in globs:
        paths = sorted(path.relative_to(tree).as_posix() for path in tree.glob(glob.removeprefix("!")))
        if not paths:
            raise FileNotFoundError(f"no file matches {glob!r}")
        if glob.startswith("!"):
            files = {path: None for path in files if path not in paths}
        else:
            files.update(dict.fromkeys(paths))
    return list(files)


def judge(tree: Path, name: str, group: dict[str, Any], count: int, seed: str) -> Result:
    """Run the group's tests against `count` mutants of its sources.

    Raises `RuntimeError` if the tests fail without any fault.
    """
    sources = {path: (tree / path).read_text(encoding="utf-8") for path in found(tree, group["sources"])}
    tests = found(tree, group["tests"])
    begun = time.monotonic()
    outcome, output = run(tree, tests, limit=1800, test_limit=600, keep_bytecode=True)
    if outcome != "survived":
        raise RuntimeError(f"{name}: the tests fail before anything was changed:\n{output}")
    took = time.monotonic() - begun
    limits = 2 * took + 2 * TEST_LIMIT, max(TEST_LIMIT, took / 2)  # a loaded machine is no hang
    result = Result()
    for mutant in sample(sources, count, Random(f"{seed} {name}")):
        target = tree / mutant.path
        before = target.stat()
        target.write_text(mutant.text, encoding="utf-8")
        outcome, _ = run(tree, nearest(tests, mutant.path), *limits)
        target.write_text(mutant.original, encoding="utf-8")
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))  # the bytecode of the original is valid again
        result.operators[mutant.operator] += 1
        if outcome == "survived":
            result.survivors.append(mutant)
        else:
            result.killed += outcome == "killed"
            result.timeouts += outcome == "timeout"
        print(f"{name}: {outcome:8} {mutant.path}:{mutant.line} {mutant.operator}", flush=True)
    result.seconds = time.monotonic() - begun
    return result


def nearest(tests: list[str], source: str) -> list[str]:
    """Return the tests, those first that bear the module's name: they notice most faults, and one ends the run."""
    return sorted(tests, key=lambda path: Path(path).stem != f"test_{Path(source).stem}")


def run(
    tree: Path, tests: Sequence[str], limit: float, test_limit: float, keep_bytecode: bool = False
) -> tuple[str, str]:
    """Run the tests in a process group of their own; return "survived", "killed" or "timeout", and what pytest said.

    They have `limit` seconds, and each of them `test_limit`.

    Raises `RuntimeError` if pytest could not be used.
    """
    environment = {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'widgets'}", "PYTHONHASHSEED": "0"}
    if not keep_bytecode:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    quiet = ["-x", "-q", "--tb=line", "-p", "no:randomly", "-p", "no:cacheprovider"]
    limits = [f"--timeout={test_limit}", "--timeout-method=thread"]  # which ends the process at once
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *quiet, *limits, *tests],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000", encoding="ascii")  # a fault may allocate without end
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return "timeout", ""
    finally:
        _end(process, tree)
    if process.returncode == 0:
        return "survived", output
    if process.returncode in {4, 5}:  # pytest's codes for wrong use and for no tests
        raise RuntimeError(f"pytest cannot run {tests}:\n{output}")
    return "timeout" if "+ Timeout +" in output else "killed", output


def _end(process: subprocess.Popen[str], tree: Path) -> None:
    """End the process and what it has started, also programs in sessions of their own that their tests left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is another user's
            if os.fsencode(tree) in environment.read_bytes():
                os.kill(int(environment.parent.name), signal.SIGKILL)
    process.communicate()


def show(name: str, result: Result) -> None:
    """Print the group's figures and its survivors."""
    print(
        f"\n{name}: {result.rate:.0%} of {result.mutants} mutants noticed: killed {result.killed}, "
        f"timeouts {result.timeouts}, survived {len(result.survivors)} ({result.seconds:.0f} s)"
    )
    for mutant in result.survivors:
        print(f"\n{mutant.path}:{mutant.line} {mutant.operator}\n{mutant.diff}")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
