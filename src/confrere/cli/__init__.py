"""The command line: it parses, calls and prints, and decides nothing."""

from confrere.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line that this process was started with."""
    app(prog_name="confrere")
