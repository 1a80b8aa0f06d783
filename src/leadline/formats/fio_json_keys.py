"""The keys of fio's JSON, 2.1 to 3.43, by the object that they stand in.

From stat.c (`show_thread_status_json`, `add_ddir_status_json`, `add_ddir_lat_json`,
`json_array_add_disk_util`), client.c (`json_object_add_client_info`) and the corpus. A key that is
none of them tells something that nobody here has read about.
"""

from __future__ import annotations

from typing import Final

DOCUMENT: Final = frozenset(
    {
        *("fio version", "timestamp", "timestamp_ms", "time", "global options"),
        *("jobs", "client_stats", "disk_util", "cpu_idleness"),
    }
)
# What an object has if it is a document of fio's.
MARKS: Final = frozenset({"fio version", "jobs", "client_stats"})

JOB: Final = frozenset(
    {
        *("jobname", "groupid", "job_start", "error", "eta", "elapsed", "desc", "job options"),
        *("hostname", "port", "read", "write", "trim", "mixed", "sync", "job_runtime"),
        # 2.1.3 called them sys_cp and usr_cp.
        *("usr_cpu", "sys_cpu", "usr_cp", "sys_cp", "ctx", "majf", "minf"),
        *("iodepth_level", "iodepth_submit", "iodepth_complete"),
        *("latency_ns", "latency_us", "latency_ms", "latency_depth", "latency_percentile"),
        *("latency_target", "latency_target_ns", "latency_window", "latency_window_us"),
        *("total_err", "first_error", "block", "steadystate", "zone_resets"),
    }
)

OPERATION: Final = frozenset(
    {
        *("io_bytes", "io_kbytes", "bw", "bw_bytes", "iops", "runtime"),
        *("total_ios", "short_ios", "drop_ios", "cachehit", "prios"),
        *("bw_min", "bw_max", "bw_agg", "bw_mean", "bw_dev", "bw_samples"),
        *("iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"),
        # 3.14 to 3.29, before `prios`.
        *("lat_high_prio", "lat_low_prio", "clat_high_prio", "clat_low_prio"),
    }
)
LATENCIES: Final = ("slat", "clat", "lat")

LATENCY: Final = frozenset({"min", "max", "mean", "stddev", "N", "percentile", "bins"})

DISK: Final = frozenset(
    {
        *("name", "hostname", "port", "util", "in_queue"),
        *(
            f"{op}_{what}"
            for op in ("read", "write")
            for what in ("ios", "merges", "ticks", "sectors")
        ),
        # Means over the members of an md or dm device; fio spells one of them without the s.
        *("aggr_util", "aggr_in_queue", "aggr_write_merge"),
        *(
            f"aggr_{op}_{what}"
            for op in ("read", "write")
            for what in ("ios", "merges", "ticks", "sectors")
        ),
    }
)

STEADY_STATE: Final = frozenset(
    {"ss", "duration", "attained", "criterion", "max_deviation", "slope", "data"}
)

# Objects of numbers only.
FLAT: Final = frozenset(
    {
        *("bins", "percentile", "iodepth_level", "iodepth_submit", "iodepth_complete"),
        *("latency_ns", "latency_us", "latency_ms"),
    }
)
