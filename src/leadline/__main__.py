"""`python -m leadline`."""

from leadline.cli.main import entry

entry()
