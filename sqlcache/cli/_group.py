"""A click group whose commands are imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from sqlcache.cli._errors import exit_codes


class CommandGroup(click.Group):
    """Commands by name, each in a module of its name below a package, as an attribute of it.

    `sqlcache --version` need not load what only the bench imports.
    """

    def __init__(
        self,
        *args: Any,
        package: str = "",
        summaries: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        """Make a group.

        Args:
            args: for click.Group.
            package: the modules lie below it.
            summaries: the commands' names, in the order of the help, and what it says of each.
            extra: for click.Group.
        """
        super().__init__(*args, **extra)
        self._package, self._summaries = package, dict(summaries or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command."""
        if cmd_name not in self._summaries:
            return None
        command = getattr(import_module(f"{self._package}.{cmd_name}"), cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self._package}.{cmd_name}.{cmd_name} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the arguments, or write the help or the version, which may fail as commands do."""
        with exit_codes():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; see `_errors` for how it ends."""
        with exit_codes():
            return super().invoke(ctx)
