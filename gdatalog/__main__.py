"""`python -m gdatalog`: the command line."""

from gdatalog.shell.start import main

main()
