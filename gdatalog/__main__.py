"""`python -m gdatalog`: the command line."""

from gdatalog.shell.cli import main

main()
