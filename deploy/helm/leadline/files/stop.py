"""Stop the runs of a release before it is uninstalled, while they still may clean up.

Helm removes the rights of a run together with its Job. So the CronJob is suspended, the Jobs with
pods of the release are deleted, and their pods are waited for: a run that gets SIGTERM removes its
objects from the cluster. Environment: NAMESPACE, RELEASE, CRONJOB, BOUND_S.
"""

import os
import sys
import time

from lightkube import ApiError, Client
from lightkube.resources.batch_v1 import CronJob, Job
from lightkube.resources.core_v1 import Pod
from lightkube.types import CascadeType, PatchType

LABELS = {
    "app.kubernetes.io/name": "leadline",
    "app.kubernetes.io/instance": os.environ["RELEASE"],
}
# The Jobs of the uninstallation itself.
OWN = "app.kubernetes.io/component"
namespace = os.environ["NAMESPACE"]
client = Client()


def remove(kind, name):
    try:
        client.delete(kind, name, namespace=namespace, cascade=CascadeType.BACKGROUND)
    except ApiError as error:
        if error.status.code != 404:
            raise


def pods():
    """Return the pods of runs that are still there."""
    found = client.list(Pod, namespace=namespace, labels=LABELS)
    return [pod for pod in found if OWN not in (pod.metadata.labels or {})]


suspended = {"spec": {"suspend": True}}
try:
    client.patch(
        CronJob, os.environ["CRONJOB"], suspended, namespace=namespace, patch_type=PatchType.MERGE
    )
except ApiError as error:
    if error.status.code != 404:
        raise
end = time.monotonic() + float(os.environ["BOUND_S"])
while running := pods():
    for job in {(pod.metadata.labels or {}).get("job-name", "") for pod in running} - {""}:
        remove(Job, job)
    if time.monotonic() > end:
        names = ", ".join(pod.metadata.name for pod in running)
        sys.exit(f"error: these runs did not end in time: {names}")
    time.sleep(1)
print("no run of this release is at work")  # noqa: T201
