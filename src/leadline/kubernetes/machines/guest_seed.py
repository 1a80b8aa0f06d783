"""What a guest is told at its first boot, as cloud-init reads it."""

from __future__ import annotations

from importlib import resources

import yaml

from leadline.plan.kubernetes import VmSettings

# Where the guest finds its data disk: udev names it by the serial number that it was given.
SERIAL = "leadline"
DEVICE = f"/dev/disk/by-id/virtio-{SERIAL}"
# In memory: what is written there touches neither disk.
HOME = "/run/leadline"
SCRATCH = f"{HOME}/scratch"
# The end of the setup, asked through the agent: its exit status, then its last words.
SETUP_DONE = f"cat {HOME}/setup.status 2>/dev/null && tail -n 8 {HOME}/setup.log >&2"
_FOLDER = "/usr/local/lib/leadline"
_SCRIPTS = ("guest_agent.sh", "guest_setup.sh")


def user_data(settings: VmSettings) -> str:
    """A `#cloud-config` that writes agent and setup, and runs them."""
    proxy = settings.proxy
    named = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    environment = ["env", *(f"{name}={proxy}" for name in named)] if proxy else []
    command = [*environment, "sh", f"{_FOLDER}/guest_setup.sh", *settings.packages]
    document = {
        "write_files": [
            {"path": f"{_FOLDER}/{name}", "permissions": "0755", "content": script(name)}
            for name in _SCRIPTS
        ],
        "runcmd": [command],
        "package_update": False,
        "package_upgrade": False,
    }
    return "#cloud-config\n" + yaml.safe_dump(document, sort_keys=False)


def script(name: str) -> str:
    return resources.files("leadline.kubernetes.machines").joinpath(name).read_text("utf-8")
