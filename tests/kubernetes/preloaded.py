"""What the server of command.py imports, and with it each of its calls: all of Leadline, with a
short rest between a prefill and the first trial.

The rest is for clusters that write back later. The tests' volumes are this machine's own, and most
tests are not about speed.
"""

import gc
import importlib
import pkgutil

import leadline
from leadline.targets import base

base.SETTLE_S = 0.2  # before anything imports it by name
for _module in pkgutil.walk_packages(leadline.__path__, "leadline."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)
# No later search for garbage writes to these objects, so that a fork need not copy them.
gc.collect()
gc.freeze()
