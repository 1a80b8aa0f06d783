"""Every error Leadline can end with: a stable code, an exit status, and how to go on.

Messages are built as `error[code]: fact`, context lines, `hint: next step` and must make sense
without colour. The catalogue below is the only place where a code is bound to an exit status;
a test proves that it holds exactly the codes that the source raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from leadline.text import visible


class Exit(IntEnum):
    """Exit statuses of the command line (a contract: other programs branch on them)."""

    ANSWERED = 0
    NEGATIVE = 1
    WRONG_REQUEST = 2
    NOT_READY = 3
    SYSTEM_FAILED = 4
    INCONCLUSIVE = 5
    NOT_COMPARABLE = 6
    GUARDED = 7
    BUG = 70
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorKind:
    """One row of the catalogue."""

    code: str
    exit: Exit
    meaning: str


class LeadlineError(Exception):
    """An error with a code, printed in three parts.

    `fact` is one sentence without a full stop, `context` the lines that show where,
    `hint` the next step. They may quote untrusted text, which is escaped when the error is printed.
    """

    def __init__(
        self, kind: ErrorKind, fact: str, *, context: Iterable[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(fact)
        self.kind = kind
        self.fact = fact
        self.context = tuple(context)
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"error[{self.kind.code}]: {self.fact}"]
        lines += [f"  {line}" for line in self.context]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(visible(line.expandtabs(4)) for line in lines)


def _kind(code: str, exit_status: Exit, meaning: str) -> ErrorKind:
    return ErrorKind(code=code, exit=exit_status, meaning=meaning)


PLAN_INVALID = _kind("plan-invalid", Exit.WRONG_REQUEST, "The plan has faults; all are listed.")
PLAN_UNREADABLE = _kind(
    "plan-unreadable", Exit.WRONG_REQUEST, "The plan file is missing, not text or not YAML."
)
TARGET_INVALID = _kind(
    "target-invalid", Exit.WRONG_REQUEST, "A target URL cannot be understood or does not exist."
)
TARGET_READ_ONLY = _kind(
    "target-read-only", Exit.NOT_READY, "The target cannot be written by this user."
)
TARGET_GONE = _kind(
    "target-gone",
    Exit.SYSTEM_FAILED,
    "The target disappeared while the run was going on, or its file system gives no answer.",
)
TARGET_NO_SPACE = _kind(
    "target-no-space",
    Exit.NOT_READY,
    "The target lacks the free space that the plan needs (10 % must stay free).",
)
TARGET_UNSUITABLE = _kind(
    "target-unsuitable",
    Exit.NOT_READY,
    "The target does not take the I/O that the plan asks for, for instance direct I/O.",
)
TARGET_FULL = _kind(
    "target-full", Exit.SYSTEM_FAILED, "The target ran out of space in the middle of a trial."
)
ENGINE_FAILED = _kind(
    "engine-failed", Exit.SYSTEM_FAILED, "The I/O engine ended with an error of its own."
)
TRIAL_HUNG = _kind(
    "trial-hung", Exit.SYSTEM_FAILED, "A trial passed its time bound and was stopped by force."
)
CLIENT_LOST = _kind(
    "client-lost",
    Exit.SYSTEM_FAILED,
    "A load generator of a fleet died, or could not be reached; the rest is not reported for all.",
)
CLIENT_VERSIONS_DIFFER = _kind(
    "client-versions-differ",
    Exit.NOT_READY,
    "The load generators of a fleet do not have the same version of fio.",
)
RATE_NOT_REACHED = _kind(
    "rate-not-reached",
    Exit.SYSTEM_FAILED,
    "The target cannot take the rate that an open loop offers: the queue grows without bound.",
)
LEFT_BEHIND = _kind(
    "left-behind",
    Exit.SYSTEM_FAILED,
    "Something that Leadline made on a target could not be removed, or a setting not restored.",
)
SETTING_INVALID = _kind(
    "setting-invalid",
    Exit.WRONG_REQUEST,
    "A system does not have a setting of the plan, or does not take one of its values.",
)
SETTING_NOT_CONSENTED = _kind(
    "setting-not-consented",
    Exit.WRONG_REQUEST,
    "A setting may restart daemons, and `--restart-daemons` does not name it.",
)
ARCHIVE_NOT_CONSENTED = _kind(
    "archive-not-consented",
    Exit.WRONG_REQUEST,
    "An archived plan changes a running system or sends a token, and `--allow-archived` does not "
    "name it.",
)
SETTING_NOT_APPLIED = _kind(
    "setting-not-applied",
    Exit.SYSTEM_FAILED,
    "A setting did not take effect or was changed by another user; its trials were not run.",
)
SETTINGS_IN_USE = _kind(
    "settings-in-use",
    Exit.NOT_READY,
    "Another run changes the settings of the same system, or was killed before it restored them.",
)
INTERRUPTED = _kind(
    "interrupted", Exit.INTERRUPTED, "The run was stopped by a signal; it can be resumed."
)
GUARD_STOPPED = _kind(
    "guard-stopped",
    Exit.GUARDED,
    "A limit of the plan's guard was crossed, or had no reading; the run can be resumed.",
)
GUARD_UNREADABLE = _kind(
    "guard-unreadable",
    Exit.NOT_READY,
    "A limit of the plan's guard has no reading before the run: no answer, no sample or no number.",
)
DRILL_NOT_CONSENTED = _kind(
    "drill-not-consented",
    Exit.WRONG_REQUEST,
    "A drill would disturb a system without `--allow-drill` naming exactly it.",
)
DRILL_FAILED = _kind(
    "drill-failed",
    Exit.SYSTEM_FAILED,
    "The event of a drill could not be begun or undone, or did not happen in its trial.",
)
PREFILL_FAILED = _kind(
    "prefill-failed", Exit.SYSTEM_FAILED, "The data to be read could not be written and verified."
)
DEVICE_NOT_CONSENTED = _kind(
    "device-not-consented",
    Exit.WRONG_REQUEST,
    "A block device would be written without `--destroy-data` naming exactly it.",
)
DEVICE_IN_USE = _kind(
    "device-in-use",
    Exit.WRONG_REQUEST,
    "The block device is mounted, swap space, part of another device, open for writing, or locked.",
)
DEVICE_EXCHANGED = _kind(
    "device-exchanged",
    Exit.SYSTEM_FAILED,
    "The name of the block device stands for another device than at the inspection.",
)
DEVICE_SIGNED = _kind(
    "device-signed",
    Exit.WRONG_REQUEST,
    "The block device carries a filesystem, partition table or other signature.",
)
DEVICE_UNCHECKED = _kind(
    "device-unchecked",
    Exit.NOT_READY,
    "It is unknown whether a block device is in use or carries anything.",
)
FIO_MISSING = _kind(
    "fio-missing", Exit.NOT_READY, "There is no fio on this machine, or on a host that needs it."
)
PROGRAM_MISSING = _kind(
    "program-missing",
    Exit.NOT_READY,
    "A benchmark program that a workload needs is not here, or not in the image of the runner.",
)
FIO_TOO_OLD = _kind("fio-too-old", Exit.NOT_READY, "fio is older than the oldest one supported.")
ENGINE_UNKNOWN = _kind(
    "engine-unknown", Exit.NOT_READY, "The I/O engine asked for is not in this fio or kernel."
)
JOB_FILE_INVALID = _kind(
    "job-file-invalid",
    Exit.WRONG_REQUEST,
    "A fio job file is missing or unreadable, or has an option that Leadline or fio refuses.",
)
FORMAT_INVALID = _kind(
    "format-invalid",
    Exit.WRONG_REQUEST,
    "A tool's output or a page cannot be understood; says where.",
)
IMPORT_KIND_UNKNOWN = _kind(
    "import-kind-unknown", Exit.WRONG_REQUEST, "No importer has that name; names the nearest."
)
IMPORT_REFUSED = _kind(
    "import-refused", Exit.WRONG_REQUEST, "Nothing that was named is a result that can be read."
)
RUN_EXISTS = _kind("run-exists", Exit.WRONG_REQUEST, "A run of that name is there already.")
RUN_NOT_FOUND = _kind(
    "run-not-found", Exit.WRONG_REQUEST, "No run, or more than one, has the name given."
)
RUN_NOT_RESUMABLE = _kind(
    "run-not-resumable", Exit.WRONG_REQUEST, "The run is complete, or still going on."
)
ARCHIVE_DAMAGED = _kind(
    "archive-damaged", Exit.NEGATIVE, "A part of an archive is missing or not what was sealed."
)
ARCHIVE_NEWER = _kind(
    "archive-newer",
    Exit.WRONG_REQUEST,
    "An archive or page is of a later version of its format than this Leadline reads.",
)
ARCHIVE_UNWRITABLE = _kind(
    "archive-unwritable", Exit.NOT_READY, "The archive cannot be written: permission or space."
)
OUTPUT_UNWRITABLE = _kind(
    "output-unwritable", Exit.WRONG_REQUEST, "A report or list cannot be written where asked."
)
BROWSER_MISSING = _kind(
    "browser-missing", Exit.NOT_READY, "A PDF or a PNG is requested and there is no Chromium here."
)
BROWSER_FAILED = _kind(
    "browser-failed", Exit.SYSTEM_FAILED, "The browser did not print the page, or not in time."
)
CLUSTER_UNKNOWN = _kind(
    "cluster-unknown",
    Exit.WRONG_REQUEST,
    "A target needs a cluster and none is named, or the name is not known.",
)
CEPH_MISSING = _kind(
    "ceph-missing", Exit.NOT_READY, "Ceph's client library or a program of Ceph's is missing here."
)
CEPH_UNREACHABLE = _kind(
    "ceph-unreachable",
    Exit.NOT_READY,
    "The cluster's configuration names no monitors, or none of them answers.",
)
CEPH_DENIED = _kind(
    "ceph-denied", Exit.NOT_READY, "The cluster does not accept the name or the key given."
)
CEPH_FAILED = _kind(
    "ceph-failed", Exit.SYSTEM_FAILED, "The cluster was asked for something and failed or refused."
)
CLUSTER_UNFIT = _kind(
    "cluster-unfit",
    Exit.SYSTEM_FAILED,
    "The cluster is in HEALTH_ERR, or full: measuring it would mislead or harm.",
)
POOL_MISSING = _kind("pool-missing", Exit.WRONG_REQUEST, "The cluster has no such pool.")
POOL_UNSUITABLE = _kind(
    "pool-unsuitable",
    Exit.NOT_READY,
    "The pool cannot take the I/O: no application, or erasure coding without overwrites.",
)
IMAGE_NOT_CONSENTED = _kind(
    "image-not-consented",
    Exit.WRONG_REQUEST,
    "An RBD image that Leadline did not make would be written without consent naming it.",
)
NOT_CEPHFS = _kind(
    "not-cephfs",
    Exit.NOT_READY,
    "The path of a cephfs target lies on no CephFS mount: the local disk would be measured.",
)
ZFS_MISSING = _kind(
    "zfs-missing", Exit.NOT_READY, "The programs of ZFS are not here, or no ZFS runs."
)
ZFS_FAILED = _kind(
    "zfs-failed", Exit.SYSTEM_FAILED, "ZFS was asked for something and failed or refused."
)
ZPOOL_UNFIT = _kind(
    "zpool-unfit",
    Exit.SYSTEM_FAILED,
    "The pool of ZFS is suspended, faulted, unavailable or imported read-only.",
)
STREAM_DIFFERS = _kind(
    "stream-differs",
    Exit.SYSTEM_FAILED,
    "What was received by `zfs receive` is not what was sent.",
)
IMAGE_NOT_MAPPED = _kind(
    "image-not-mapped",
    Exit.NOT_READY,
    "An RBD image could not be made a block device here, or only one that takes no writes.",
)
KUBERNETES_UNREACHABLE = _kind(
    "kubernetes-unreachable", Exit.NOT_READY, "The API server of a Kubernetes cluster is silent."
)
KUBERNETES_DENIED = _kind(
    "kubernetes-denied",
    Exit.NOT_READY,
    "This user may not do what is needed in the cluster; names the rule to add.",
)
KUBERNETES_FAILED = _kind(
    "kubernetes-failed",
    Exit.SYSTEM_FAILED,
    "The cluster refused or failed what was asked, for instance by an admission webhook.",
)
QUOTA_EXCEEDED = _kind(
    "quota-exceeded", Exit.NOT_READY, "A quota of the namespace does not allow what is needed."
)
CLASS_UNSUITABLE = _kind(
    "class-unsuitable",
    Exit.NOT_READY,
    "The StorageClass cannot give the volume: no such class, no raw block, or it keeps volumes.",
)
IMAGE_UNAVAILABLE = _kind(
    "image-unavailable",
    Exit.NOT_READY,
    "The image of runner pods could not be built or loaded, or no program for it is installed.",
)
VOLUME_PENDING = _kind(
    "volume-pending",
    Exit.SYSTEM_FAILED,
    "A volume was not provisioned in time; quotes its events.",
)
RUNNER_FAILED = _kind(
    "runner-failed",
    Exit.SYSTEM_FAILED,
    "The pod, virtual machine or host that does the I/O did not start, or was lost.",
)
SHELL_LOST = _kind(
    "shell-lost",
    Exit.SYSTEM_FAILED,
    "The connection to a pod, guest or host was lost behind a command, or gave no answer in time.",
)
HOST_UNREACHABLE = _kind(
    "host-unreachable",
    Exit.NOT_READY,
    "A host that is to generate load is not reached by ssh, or does not let this user in.",
)
LAB_INVALID = _kind(
    "lab-invalid", Exit.WRONG_REQUEST, "A lab's description has faults; all are listed."
)
POLICY_INVALID = _kind(
    "policy-invalid", Exit.WRONG_REQUEST, "The policy of a gate cannot be read, or has faults."
)
FACTS_INVALID = _kind(
    "facts-invalid",
    Exit.WRONG_REQUEST,
    "A facts file has faults, names what is not imported, or contradicts the inventory.",
)
LAB_EXISTS = _kind("lab-exists", Exit.WRONG_REQUEST, "There is a lab of that name already.")
LAB_NOT_FOUND = _kind("lab-not-found", Exit.WRONG_REQUEST, "There is no lab of that name.")
LAB_NOT_READY = _kind(
    "lab-not-ready", Exit.NOT_READY, "This machine lacks what a lab needs, or the lab is not up."
)
LAB_FAILED = _kind(
    "lab-failed", Exit.SYSTEM_FAILED, "A lab's cluster did not come up, or died; its logs show why."
)
DUMPS_INVALID = _kind(
    "dumps-invalid",
    Exit.WRONG_REQUEST,
    "A folder of saved dumps of a cluster lacks one that is needed, or one is damaged.",
)
NOTHING_TO_RANK = _kind(
    "nothing-to-rank",
    Exit.NOT_COMPARABLE,
    "No target has every number that the question needs, or the run measured none of them.",
)
NO_LOAD_CURVE = _kind(
    "no-load-curve",
    Exit.NOT_COMPARABLE,
    "No workload was measured at two load levels at least, so that there is no curve.",
)
NOTHING_TO_PREDICT = _kind(
    "nothing-to-predict",
    Exit.NOT_COMPARABLE,
    "Neither a calibrated model nor a bound is possible for any cell; says why.",
)
NO_LAYERS = _kind(
    "no-layers",
    Exit.WRONG_REQUEST,
    "The archive has no record of the layers below the requested targets.",
)
RULE_UNKNOWN = _kind("rule-unknown", Exit.WRONG_REQUEST, "No audit rule has that code.")
SCHEMA_UNKNOWN = _kind("schema-unknown", Exit.WRONG_REQUEST, "No verb of that name has a schema.")
NOT_COMPARABLE = _kind(
    "not-comparable",
    Exit.NOT_COMPARABLE,
    "Nothing of the two can be compared; the answer says why of each cell.",
)
USAGE = _kind("usage", Exit.WRONG_REQUEST, "The command line is not understood.")
BUG = _kind("bug", Exit.BUG, "Leadline itself failed; the report asks to be sent to us.")

CATALOGUE: tuple[ErrorKind, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, ErrorKind)
)
