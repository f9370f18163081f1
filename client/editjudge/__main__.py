"""`python -m editjudge`: the command line."""

from .cli import main

main()
