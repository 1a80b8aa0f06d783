"""`kubectl leadline`: the same program, called by kubectl as its plugin.

kubectl looks for `kubectl-leadline` on PATH and hands over what follows `leadline`. It takes no
options of its own before a plugin's name, so that people write them behind it, where this program
would expect its verb: `kubectl leadline --context prod run ...`. They are moved behind the verb,
which has them as its own options.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

PROGRAM = "kubectl leadline"

# kubectl's options for the choice of a cluster that verbs of Leadline take too.
_OF_KUBECTL = ("--kubeconfig", "--context", "--namespace", "-n")
# Verbs that have verbs of their own, to which the options belong.
WITH_VERBS = ("lab", "pools", "kubernetes")


def entry() -> None:
    """The console script `kubectl-leadline`."""
    from leadline.cli.main import main, set_up_process

    set_up_process()
    sys.exit(main(behind_the_verb(sys.argv[1:]), program=PROGRAM))


def behind_the_verb(arguments: Sequence[str]) -> list[str]:
    """`arguments` with kubectl's options at their beginning moved to just behind the verb."""
    options: list[str] = []
    rest = list(arguments)
    while rest:
        name, equals, _ = rest[0].partition("=")
        if name not in _OF_KUBECTL:
            break
        count = 1 if equals else 2
        options += rest[:count]
        rest = rest[count:]
    if not rest or rest[0].startswith("-"):
        return [*options, *rest]
    verb = 2 if rest[0] in WITH_VERBS else 1
    return [*rest[:verb], *options, *rest[verb:]]
