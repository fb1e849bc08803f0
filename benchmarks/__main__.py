"""Run every benchmark, or those that are named: ``python -m benchmarks [name ...]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from rich.console import Console

import benchmarks

PREFIX = "bench_"


def main(wanted: list[str]) -> None:
    names = [
        module.name.removeprefix(PREFIX)
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if module.name.startswith(PREFIX)
    ]
    unknown = set(wanted) - set(names)
    if unknown:
        sys.exit(f"No benchmark named {', '.join(sorted(unknown))}; there are {', '.join(names)}.")
    for name in wanted or names:
        Console().rule(name)
        importlib.import_module(f"benchmarks.{PREFIX}{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
