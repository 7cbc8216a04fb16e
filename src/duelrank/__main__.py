"""Runs the command line: ``python -m duelrank``."""

from duelrank.cli import main

if __name__ == "__main__":  # worker processes import this file too, under another name
    main()
