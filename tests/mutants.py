"""Do the tests notice when the product's code is wrong? Makes small faults by a fixed seed and says
which command's tests find each.

    mutants.py reach --seed 7 --n 20 --out reach.json --command '.venv/bin/python -m pytest -n 3'
    mutants.py run --reach reach.json --out run.jsonl \\
        --command 'test=.venv/bin/python -m tests test -n 0 -x' \\
        --command 'all=.venv/bin/python -m tests all -n 0 -x'

Run it at the root of a checkout; all is read from the commit HEAD. `reach` draws `--n` mutants
under each package, runs the command once on a copy of the checkout in which each place of a mutant
says which test reaches it, and writes that down with the seconds of each test that passed. `run`
gives each mutant to the tests that reach it, the quickest first; what is reached on import, or
where no test is known, is given the tests of the folder of the same name and those that import the
module. Its commands are tried in turn until one kills; each runs only those tests that it collects.

A copy is a worktree with an environment of its own, whose packages are those of the checkout by
hard links, so that programs with a cleared environment find the mutant as well. Linux alone.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("evalcore", "leaderboard", "runners")
PINNED = "evalcore/task/transforms/"
"""Digests of these files are in the lock file of the tasks: a call that is put in fails at once."""
TIMEOUT = 900
"""Seconds in which a command must have ended, or the mutant is killed by hanging."""
MAX_SECONDS = 600
"""Tests are chosen until they take so long together, by their times in the run of `reach`."""

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.In: ast.NotIn, ast.Is: ast.IsNot,
    ast.And: ast.Or, ast.Add: ast.Sub,
}  # fmt: skip
SWAPS |= {new: old for old, new in SWAPS.items()}
LEFT_ALONE: dict[type[ast.AST], tuple[str, str]] = {
    ast.If: ("test", "TYPE_CHECKING|__name__"),
    ast.Raise: ("exc", "NotImplementedError"),
    ast.Compare: ("left", r"sys\.version_info"),
    ast.Call: (
        "func",
        r"(?i)^(self\.|cls\.)?_?(log|logger|logging)\.|\b(dataclass|TypeVar|NewType)$",
    ),
    ast.JoinedStr: ("values", ""),
    ast.Subscript: ("value", r"\b(Literal|Annotated)$|__doc__|(?i:version)"),
    ast.AnnAssign: ("annotation", "TypeAlias"),
    ast.keyword: (
        "arg",
        "^(help|description|epilog|metavar|usage|help_text|verbose_name|verbose_name_plural)$",
    ),
    ast.arg: ("arg", ""),
}
"""Texts, logging, versions and what only a type checker reads: which part of a node, what in it."""

RECORDER = """
import os
SEEN = set()
def reached(mutant):
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if (mutant, test) in SEEN:
        return
    SEEN.add((mutant, test))
    try:
        with open({file!r}, "a") as file:
            file.write(f"{{mutant}}\\t{{test}}\\n")
    except OSError:
        pass
"""
PLUGIN = """
import pytest
def pytest_runtest_logreport(report):
    import os
    if "PYTEST_XDIST_WORKER" in os.environ or not hasattr(report, "node"):
        with open({file!r}, "a") as file:
            file.write(f"{{report.nodeid}}\\t{{report.when}}\\t{{report.outcome}}\\t{{report.duration}}\\n")
"""


@dataclass(frozen=True)
class Mutant:
    """One small fault in one file of the product."""

    id: str
    file: str
    line: int
    operator: str
    before: str
    after: str
    start: int
    stop: int
    """Where in the file's bytes `before` stands."""
    on_import: bool
    """Whether the place runs when its module is imported, or only once."""

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.stop :]


def text_of(node: object) -> str:
    return ast.unparse(node) if isinstance(node, ast.AST) else str(node)


def is_left_alone(node: ast.AST, function: ast.AST | None) -> bool:
    inner = node.value if isinstance(node, ast.Expr) else node
    part, pattern = LEFT_ALONE.get(type(inner), ("", ""))
    if part and (value := getattr(inner, part)) and re.search(pattern, text_of(value)):
        return True
    names: list[Any] = []
    if isinstance(inner, ast.Assign):
        names = inner.targets
    elif isinstance(inner, ast.AnnAssign):
        names = [inner.target]
    pattern = "__all__" if function else "__all__|(?i:version)"
    return any(re.search(pattern, text_of(name)) for name in names)


def faults_of(node: ast.AST, function: Any) -> Iterator[tuple[ast.AST, str, str]]:
    """What is replaced, the kind of fault and the new text, for each fault a node can have."""

    def changed(**fields: Any) -> str:
        new = text_of(type(node)(**dict(ast.iter_fields(node)) | fields))
        return new if isinstance(node, ast.stmt) else f"({new})"

    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                if type(op) in SWAPS:
                    yield (
                        node,
                        "comparison",
                        changed(ops=[*ops[:i], SWAPS[type(op)](), *ops[i + 1 :]]),
                    )
        case ast.BoolOp(op=op):
            yield node, "and/or", changed(op=SWAPS[type(op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node, "not removed", f"({text_of(node.operand)})"
        case ast.BinOp() | ast.AugAssign() if re.search(r"^[fb]?['\"]|['\"]$", text_of(node)):
            return  # texts that are put together
        case (
            ast.BinOp(op=ast.Add() | ast.Sub() as op)
            | ast.AugAssign(op=ast.Add() | ast.Sub() as op)
        ):
            yield node, "plus/minus", changed(op=SWAPS[type(op)]())
        case ast.Constant(value=bool() as value):
            yield node, "True/False", str(not value)
        case ast.Constant(value=int() as value):
            yield node, "integer", str(value + 1)
        case ast.Return(value=ast.expr() as value):
            if function and text_of(function.returns) != "None" != text_of(value):
                yield node, "return None", "return None"
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
            yield node, "call removed", "pass"
        case ast.If():
            yield node.test, "if False", "False"
        case ast.Raise():
            yield node, "raise removed", "pass"
        case (
            ast.Subscript(ctx=ast.Load(), slice=ast.Constant(value=str()) as key)
            | ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str()) as key, *_])
        ):
            yield key, "lookup key", repr(key.value + "_")


def mutants_of(file: str, source: bytes) -> tuple[list[Mutant], int]:
    """All mutants of a file, and how many lines of code it has."""
    tree, times, found = ast.parse(source), Counter[str](), []
    begins = [0, *itertools.accumulate(len(line) + 1 for line in source.split(b"\n"))]

    def walk(node: ast.AST, function: Any) -> None:
        once = not function or "cache" in " ".join(map(text_of, function.decorator_list))
        for part, operator, after in faults_of(node, function):
            start = begins[part.lineno - 1] + part.col_offset  # type: ignore[attr-defined]
            stop = begins[part.end_lineno - 1] + part.end_col_offset  # type: ignore[attr-defined]
            before = source[start:stop].decode()
            key = f"{file}:{operator}:{before}:{after}"
            times[key] += 1
            name = hashlib.sha1(f"{key}:{times[key]}".encode()).hexdigest()[:10]
            line = part.lineno  # type: ignore[attr-defined]
            found.append(Mutant(name, file, line, operator, before, after, start, stop, once))
        for name, value in ast.iter_fields(node):
            is_body = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and name == "body"
            around = node if is_body else function
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST) or name in ("annotation", "returns"):
                    continue
                if not is_left_alone(child, around):
                    walk(child, around)

    walk(tree, None)
    lines = {
        node.lineno
        for node in ast.walk(tree)
        if hasattr(node, "lineno") and not isinstance(node, ast.Constant)
    }
    return found, len(lines)


def read_product(root: Path) -> dict[str, bytes]:
    """The files of the product, by their paths."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        if "migrations" not in path.parts
    }


def draw(sources: Mapping[str, bytes], under: str, seed: int, number: int) -> list[Mutant]:
    """A file is as likely as it has lines of code, a place in it as any other there.

    Weighted draws without replacement by Efraimidis and Spirakis (2006): the first 10 of a seed are
    the first of its 20.
    """
    drawn = []
    for file, source in sources.items():
        if file.startswith(under.rstrip("/") + "/"):
            found, lines = mutants_of(file, source)
            for mutant in found:
                digest = hashlib.sha1(f"{seed}:{mutant.id}".encode()).hexdigest()[:13]
                turn = -math.log((int(digest, 16) + 1) / 16**13) * len(found) / lines
                drawn.append((turn, mutant.id, mutant))
    return [mutant for *_, mutant in sorted(drawn)[:number]]


@contextmanager
def copied_checkout(root: Path) -> Iterator[Path]:
    """A worktree of HEAD with an environment of its own."""
    folder = Path(tempfile.mkdtemp(prefix="mutants-")).resolve()
    folder.chmod(0o755)  # programs of other users start in it
    subprocess.run(
        ["git", "worktree", "add", "--quiet", "--detach", folder, "HEAD"], cwd=root, check=True
    )
    try:
        subprocess.run(["cp", "-al", root / ".venv", folder / ".venv"], check=True)
        packages = next(folder.glob(".venv/lib/python*/site-packages"))
        places = [
            folder / ".venv/bin",
            folder / ".venv/pyvenv.cfg",
            *packages.glob("__editable__*"),
        ]
        named = subprocess.run(
            ["grep", "-rIlF", f"{root}/", *places], capture_output=True, text=True, check=False
        ).stdout.split("\n")[:-1]
        for file in map(Path, named):
            text, mode = file.read_text(), file.stat().st_mode
            file.unlink()
            file.write_text(text.replace(f"{root}/", f"{folder}/"))
            file.chmod(mode)
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=root, check=False)


def put_recorder(source: bytes, mutants: Sequence[Mutant]) -> bytes:
    """The file's source with a call before the statement of each mutant."""
    begins = [0, *itertools.accumulate(len(line) + 1 for line in source.split(b"\n"))]
    places = []
    for mutant in mutants:
        before = 0
        for node in ast.walk(ast.parse(source)):
            for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                for statement in body if isinstance(body, list) else ():
                    if not isinstance(statement, ast.stmt) or isinstance(
                        statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
                    ):
                        continue
                    start = begins[statement.lineno - 1] + statement.col_offset
                    stop = begins[statement.end_lineno - 1] + statement.end_col_offset  # type: ignore
                    is_elif = source[start : start + 4] == b"elif"
                    if start <= mutant.start and mutant.stop <= stop and not is_elif:
                        before = max(before, start)
        places.append((before, mutant.id))
    for before, name in sorted(places, reverse=True):
        indent = source[source.rfind(b"\n", 0, before) + 1 : before]
        call = f"__import__('mutant_recorder').reached('{name}')\n".encode()
        source = source[:before] + call + indent + source[before:]
    ast.parse(source)
    return source


def execute(command: str, folder: Path, timeout: float, **environment: str) -> tuple[str, str]:
    """How a command that runs pytest ended, and what it printed; on timeout all of it is ended."""
    variables = {**os.environ, "CI": "", **environment}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, shell=True, cwd=folder, env=variables, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            status: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
            for number in (signal.SIGINT, signal.SIGKILL):
                try:
                    os.killpg(process.pid, number)
                    process.wait(20)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
        output.seek(0)
        text = output.read().decode(errors="replace")
    if status is None:
        return "timeout", text
    if re.search(r"ERROR collecting |errors? during collection|ImportError while loading", text):
        return "broken", text
    if re.search(r"^=+ no tests ran|^no tests ran", text, re.M):
        return "no tests", text
    return ("survived" if status == 0 else "killed"), text


def record_reach(options: argparse.Namespace, root: Path) -> None:
    sources = read_product(root)
    mutants = [m for under in options.under for m in draw(sources, under, options.seed, options.n)]
    by_file = defaultdict(list)
    for mutant in mutants:
        if not mutant.on_import and not mutant.file.startswith(PINNED):
            by_file[mutant.file].append(mutant)
    with copied_checkout(root) as folder, tempfile.TemporaryDirectory() as notes:
        packages = next(folder.glob(".venv/lib/python*/site-packages"))
        reached, ended = Path(notes, "reached"), Path(notes, "ended")
        Path(notes).chmod(0o777)
        (packages / "mutant_recorder.py").write_text(RECORDER.format(file=str(reached)))
        (packages / "mutant_plugin.py").write_text(PLUGIN.format(file=str(ended)))
        for file, own in by_file.items():
            (folder / file).write_bytes(put_recorder(sources[file], own))
        _, output = execute(options.command[0], folder, math.inf, PYTEST_ADDOPTS="-p mutant_plugin")
        print(output[-1500:])
        write_reach(options.out, mutants, reached.read_text(), ended.read_text())


def write_reach(out: Path, mutants: Sequence[Mutant], reached: str, ended: str) -> None:
    contexts = defaultdict(set)
    for line in reached.splitlines():
        name, _, test = line.partition("\t")
        contexts[name].add(test)
    seconds: Counter[str] = Counter()
    failed = set()
    for line in ended.splitlines():
        test, _, outcome, duration = line.rsplit("\t", 3)
        seconds[test] += float(duration)
        if outcome != "passed":
            failed.add(test)
    out.write_text(
        json.dumps(
            {
                "mutants": [asdict(m) | {"contexts": sorted(contexts[m.id])} for m in mutants],
                "tests": {test: round(s, 2) for test, s in seconds.items() if test not in failed},
            }
        )
    )


def imported_names(source: bytes) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return names


class Chooser:
    """Which tests could find a mutant."""

    def __init__(self, root: Path, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds
        self._of_module: dict[str, float] = defaultdict(float)
        for test, own in seconds.items():
            module = test.partition("::")[0]
            self._of_module[module] = max(self._of_module[module], own)
        self._imports = {
            path.relative_to(root).as_posix(): imported_names(path.read_bytes())
            for path in root.glob("tests/**/test_*.py")
        }

    def __call__(self, mutant: Mutant, contexts: Sequence[str], has: Container[str]) -> list[str]:
        """The ids of a command's tests: those of the same folder first, then the quickest."""
        exact, modules = set(), set()
        for context in contexts:
            test = context.rpartition(" (")[0]
            if context.endswith("(call)"):
                exact.add(test)
            elif test:  # a fixture, which the module's other tests may use as well
                modules.add(test.partition("::")[0])
        if not (exact or modules) or mutant.on_import:
            modules |= self._by_rule(mutant.file)
        chosen = {test for test in self._seconds if test.partition("::")[0] in modules}
        tests = [test for test in chosen | (exact & self._seconds.keys()) if test in has]
        place = f"tests/{mutant.file.rpartition('/')[0]}/"

        def turn(test: str) -> tuple[bool, float, float, str]:
            seconds = self._seconds[test]
            module = test.partition("::")[0]
            return not test.startswith(place), self._of_module[module], seconds, test

        tests.sort(key=turn)
        together = itertools.accumulate(self._seconds[test] for test in tests)
        return [test for test, s in zip(tests, together, strict=True) if s < MAX_SECONDS]

    def _by_rule(self, file: str) -> set[str]:
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        place = f"tests/{file.rpartition('/')[0]}"
        while place != "tests" and not any(t.rpartition("/")[0] == place for t in self._imports):
            place = place.rpartition("/")[0]
        beside = {test for test in self._imports if test.rpartition("/")[0] == place != "tests"}
        return beside | {test for test, names in self._imports.items() if module in names}


def collected(command: str, folder: Path) -> set[str]:
    """The tests that a command has."""
    _, output = execute(command, folder, TIMEOUT, PYTEST_ADDOPTS="--collect-only -q")
    return set(re.findall(r"^(tests/\S.*::.*)$", output, re.M))


def write_newer(path: Path, source: bytes) -> None:
    """Write a file with a time of its own: bytecode of the same second would count as current."""
    modified = path.stat().st_mtime + 2
    path.write_bytes(source)
    os.utime(path, (modified, modified))


def try_mutants(options: argparse.Namespace, root: Path) -> None:
    known = json.loads(options.reach.read_text())
    sources = read_product(root)
    commands = dict(command.split("=", 1) for command in options.command)
    done = {}
    if options.out.exists():
        done = {r["id"]: r for r in map(json.loads, options.out.read_text().splitlines())}
    with copied_checkout(root) as folder:
        choose = Chooser(root, known["tests"])
        has = {name: collected(text, folder) for name, text in commands.items()}
        for fields in known["mutants"]:
            contexts = fields.pop("contexts")
            mutant = Mutant(**fields)
            if mutant.id in done or (options.only and mutant.id not in options.only):
                continue
            place = folder / mutant.file
            write_newer(place, mutant.apply(sources[mutant.file]))
            record = fields | {"verdict": "not covered", "command": "", "by": "", "tests": 0}
            begun = time.monotonic()
            for name, text in commands.items():
                own = choose(mutant, contexts, has[name])
                if not own:
                    continue
                listed = folder / ".mutant-tests"
                listed.write_text("\n".join(own))
                verdict, output = execute(f"{text} @{listed.name}", folder, TIMEOUT)
                first = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - |$)", output, re.M)
                record |= {
                    "verdict": verdict,
                    "command": name,
                    "by": first[1] if first else "",
                    "tests": len(own),
                }
                if verdict != "survived":
                    break
            record["seconds"] = round(time.monotonic() - begun, 1)
            write_newer(place, sources[mutant.file])
            done[mutant.id] = record
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print("{verdict:12} {id} {file}:{line} {operator}: {by}".format(**record), flush=True)
    print_table([done[fields["id"]] for fields in known["mutants"] if fields["id"] in done])


def print_table(records: Sequence[Mapping[str, Any]]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        verdict = record["verdict"]
        column = f"killed by {record['command']}" if verdict == "killed" else verdict
        for row in (record["file"].split("/")[0], "all"):
            counts[row][column] += 1
    columns = sorted(counts["all"])
    print(f"\n| under | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for row, cells in counts.items():
        print(f"| {row} | {' | '.join(str(cells[column]) for column in columns)} |")
    for record in records:
        if record["verdict"] in ("survived", "not covered"):
            print(
                "\n{verdict}: {id} {file}:{line}, {tests} tests\n- {before}\n+ {after}".format(
                    **record
                )
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=("list", "reach", "run"))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--n", type=int, default=20, help="mutants under each package")
    parser.add_argument("--under", action="append", help=f"default: {', '.join(PACKAGES)}")
    parser.add_argument("--command", action="append", default=[])
    parser.add_argument("--reach", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", action="append", help="the id of a mutant")
    options = parser.parse_args()
    options.under = options.under or list(PACKAGES)
    root = Path.cwd()
    if options.do == "list":
        for under in options.under:
            for mutant in draw(read_product(root), under, options.seed, options.n):
                print(json.dumps(asdict(mutant)))
    elif options.do == "reach":
        record_reach(options, root)
    else:
        try_mutants(options, root)


if __name__ == "__main__":
    sys.exit(main())
