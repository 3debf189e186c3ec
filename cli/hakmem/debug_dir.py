"""The option --debug-dir of the commands that name the calls of a stack."""

from __future__ import annotations

import click

# A folder that is not there is wrong usage: without its files only the names would be missing, after the whole work.
debug_dir_option = click.option(
    "--debug-dir",
    "folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="A folder with separate debug files. Repeatable.",
)
