"""The command line with a short rest between a prefill and the first trial.

The rest is for clusters that write back later. The tests' volumes are this machine's own, and most
tests are not about speed.
"""

import sys

REST_S = 0.2


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        from leadline.targets import base

        base.SETTLE_S = REST_S  # before anything imports it by name
    from leadline.cli.main import entry

    entry()


if __name__ == "__main__":
    main()
