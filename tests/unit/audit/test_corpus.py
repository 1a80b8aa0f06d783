"""Every fio JSON of the corpus: the findings are those that were looked at one by one.

docs/internals/audit-on-the-corpus.md says of each whether it is true.
"""

from __future__ import annotations

from pathlib import Path

from leadline.findings import Severity
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.result import FormatError
from tests.unit.audit.published import audit_output

# Submission waits on FUSE (facts of the lab, section 4).
FUSE = [f"r{size}-libaio-q8-oc{cache}" for size in (2, 3) for cache in ("true", "false")]
# Four results of writes whose job is called random-read.
MISLABELLED = ["3.1-860pro-wc-on", "3.6-ceph-hdd-first", "3.6-ceph-ssd-first", "3.6-ceph-ssd-goed"]
LOOKED_AT = {
    ("cut_SIGINT.json", "truncated-result"),
    ("cut_SIGTERM.json", "truncated-result"),
    ("hang_op_timeout.json", "engine-error"),
    ("fioplot-2.18-randread-128-128.json", "queue-depth-not-reached"),
    ("fioplot-3.33-error22-noise.json", "engine-error"),
    ("fioplot-3.34-sigint-short.json", "truncated-result"),
    ("kubestr-3.20-gtod-reduce.json", "concurrent-jobs"),
    ("kubestr-3.20-gtod-reduce.json", "latency-not-measured"),
    ("stonet-3.35-8dev-13GBs.json", "client-saturated"),
    ("stonet-3.35-two-sections-grouped.json", "merged-sections"),
    ("troubleshoot-3.28-1.json", "inconsistent-figures"),
    ("vc-3.26-bom-odd.json", "inconsistent-figures"),
    ("vc-3.26-json.txt", "inconsistent-figures"),
    ("vc-3.26-readwrite.json", "inconsistent-figures"),
    ("vc-3.26-write.json", "inconsistent-figures"),
    ("zns-3.28-35ms-run.json", "latency-not-measured"),
    ("zns-3.28-35ms-run.json", "short-runtime"),
    *((f"fio-{kind}.json", "queue-depth-not-reached") for kind in FUSE),
    *((f"fioplot-{kind}-randwrite-1-1.json", "name-contradicts-work") for kind in MISLABELLED),
}


def test_only_findings_that_were_looked_at(shared: Path) -> None:
    files, found = 0, set()
    for folder in ("ceph-lab", "public/fio-json"):
        for path in sorted((shared / "corpus" / folder).rglob("*")):
            content = path.read_bytes() if path.is_file() else b""
            if b'"fio version"' not in content:
                continue
            try:
                output = parse_fio_json(content)
            except FormatError:
                continue
            files += 1
            found |= {
                (path.name, finding.code)
                for finding in audit_output(output)
                if finding.severity is not Severity.INFO and finding.code != "unfamiliar-output"
            }
    assert files == 133
    assert found == LOOKED_AT
