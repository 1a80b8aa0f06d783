"""Job files that would leave their target: for the parser, for runs in a sandbox and as seeds.

`OUT` is a path to a folder next to the target, relative to the folder that Leadline makes in it;
`ABS` is the same folder as an absolute path.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_JOB = "rw=randwrite\nbs=4k\nsize=64k\nruntime=1\nioengine=psync\n"


def _with(*lines: str) -> str:
    return "\n".join(["[job]", *lines, _JOB])


def _section(name: str, *lines: str) -> str:
    return "\n".join([f"[{name}]", *lines, _JOB])


# By name: the text, and a part of the line that refuses it.
_REFUSED: Mapping[str, tuple[str, str]] = {
    "exec_prerun": (_with("exec_prerun=touch ABS/ran"), "'exec_prerun' is refused: it runs"),
    "exec_postrun": (_with("exec_postrun=touch ABS/ran"), "'exec_postrun' is refused: it runs"),
    "exec in [global]": ("[global]\nexec_prerun=touch ABS/ran\n" + _with(), "2: 'exec_prerun'"),
    "external engine": (
        _with().replace("=psync", "=external:ABS/code.so"),
        "'external:ABS/code.so' is refused: it loads code",
    ),
    "engine from a path": (_with().replace("=psync", "=ABS/code.so"), "use filecreate, "),
    "exec engine": (
        _with("program=/usr/bin/touch", "arguments=ABS/ran").replace("=psync", "=exec"),
        "'exec' is refused: it runs",
    ),
    "net engine": (_with("hostname=localhost").replace("=psync", "=net"), "'hostname' is refused"),
    "key with an empty variable": (
        _with("file${LEADLINE_EMPTY}name=OUT/sentinel"),
        "fio would replace `$`",
    ),
    "key that is a variable": (_with("${LEADLINE_KEY}=OUT/sentinel"), "fio would replace `$`"),
    "value with a variable": (_with("write_bw_log=${HOME}"), "fio would replace `$`"),
    "size of a variable": (
        _with().replace("size=64k", "size=${LEADLINE_SIZE}"),
        "fio would replace `$`",
    ),
    "keyword with arithmetic": (_with("iodepth=$ncpus*2"), "fio would replace `$`"),
    "command in a value": (_with("bssplit=$(touch ABS/ran)"), "fio would replace `$`"),
    "backticks": (_with("bssplit=`touch ABS/ran`"), "a value has letters"),
    "long comment": (_with("#" + "x" * 8190 + "filename=OUT/sentinel"), "fio would split"),
    "long comment for old fio": (
        _with("#" + "x" * 4094 + "filename=OUT/sentinel"),
        "fio would split",
    ),
    "long option": (_with("description=" + "x" * 8179 + "directory=ABS"), "fio would split"),
    "filename": (_with("filename=OUT/sentinel"), "the target decides"),
    "filename in spaces": (_with(" \tfilename \t= OUT/sentinel"), "the target decides"),
    "filename in [global]": ("[global]\nfilename=OUT/sentinel\n" + _with(), "the target decides"),
    "directory": (_with("directory=ABS"), "the target decides"),
    "opendir": (_with("opendir=ABS"), "the target decides"),
    "include": (_with("include ABS/more.fio"), "the target decides"),
    "include without a blank": (_with("include:ABS/more.fio"), "the target decides"),
    "unique_filename": (_with("unique_filename=1"), "the target decides"),
    "section without a bracket": ("[OUT/sentinel.0.0X\n" + _with(), "is no [section]"),
    "section with more behind it": ("[OUT/sentinel]X\n" + _with(), "is no [section]"),
    "section that fio takes for [global]": (
        "[globally]\n" + _JOB + _with(),
        "fio takes the section 'globally'",
    ),
    "long section": (_section("x" * 240 + "OUT/sentinel"), "the name of the section is too long"),
    "log with a path": (_with("write_lat_log=OUT/log"), "must not hold a path"),
    "log with an absolute path": (_with("write_iops_log=ABS/log"), "must not hold a path"),
    "histogram with a path": (_with("write_hist_log=OUT/log", "log_hist_msec=100"), "a path"),
    "format with a path": (_with("filename_format=OUT/sentinel"), "must not hold a path"),
    "format of the owner's mark": (_with("filename_format=.leadline-owner"), "not hold a path"),
    "format with a variable": (_with("filename_format=${HOME}.$jobnum"), "must not hold a path"),
    "format with an unknown keyword": (_with("filename_format=a$clientuid"), "not hold a path"),
    "memory in a file": (_with("mem=mmapshared:ABS/memory"), "use malloc, shm, mmap"),
    "memory in a file by the alias": (_with("iomem=mmaphuge:ABS/memory"), "use malloc, shm"),
    "pattern of a file": (_with("buffer_pattern='ABS/sentinel'"), "a value has letters"),
    "pattern of a file to verify": (_with("verify_pattern='ABS/sentinel'"), "a value has letters"),
    "recorded I/O": (_with("read_iolog=ABS/sentinel"), "a recorded file"),
    "recorded I/O redirected": (_with("replay_redirect=ABS/sentinel"), "a recorded file"),
    "recording": (_with("write_iolog=ABS/log"), "no part of the results"),
    "merged trace": (_with("merge_blktrace_file=ABS/log"), "a recorded file"),
    "verify dump": (_with("verify=md5", "verify_dump=1"), "no part of the results"),
    "verify state": (_with("verify=md5", "verify_state_save=1"), "use 0"),
    "verify state loaded": (_with("verify=md5", "verify_state_load=1"), "no part of the results"),
    "aux path": (_with("aux-path=ABS"), "command line"),
    "trigger": (_with("trigger=touch ABS/ran"), "'trigger' is refused: it runs"),
    "profile": (_with("profile=tiobench"), "a built-in one"),
    "scheduler": (_with("ioscheduler=none"), "settings of the machine"),
    "cgroup": (_with("cgroup=leadline"), "groups of processes"),
    "user": (_with("uid=0"), "fio runs as the user"),
    "unlink": (_with("unlink=1"), "Leadline removes"),
    "unlink each loop": (_with("unlink_each_loop=1"), "Leadline removes"),
    "fill": (_with("fill_device=1"), "the space that Leadline checks"),
    "fill by the alias": (_with("fill_fs=1"), "the space that Leadline checks"),
    "mounted device": (_with("allow_mounted_write=1"), "a device in use"),
    "create only": (_with("create_only=1"), "no I/O in its trials"),
    "no statistics": (_with("stats=0"), "no results"),
    "zero byte": (_with("rw=read\x00filename=OUT/sentinel"), "U+0000"),
    "carriage return": (_with("time_based\rfilename=OUT/sentinel"), "U+000D"),
    "vertical tab": (_with("\x0bfilename=OUT/sentinel"), "U+000B"),
    "next line": (_with("# \x85filename=OUT/sentinel"), "U+0085"),
    "line separator": (_with("; \u2028filename=OUT/sentinel"), "U+2028"),
    "byte order mark": ("\ufeff" + _with(), "U+FEFF"),
    "capitals": (_with("FILENAME=OUT/sentinel"), "is no option of fio"),
    "twice": (_with("rw=read"), "'rw' is in line 2 too"),
    "twice by the alias": (_with("readwrite=read"), "'rw' is in line 2 too"),
    "wait for none": (_with("wait_for=OUT/sentinel"), "names no section before"),
    "unknown pattern": (_with().replace("rw=", "rw=x"), "use read, write"),
    "spelling": (_with("iodpeth=4"), "did you mean 'iodepth'?"),
    "unknown": (_with("zzzz=4"), "'zzzz' is no option of fio"),
}
# Job files that are run, with their names replaced: each stays in its target.
_KEPT: Mapping[str, str] = {
    "section that is a path": _section("OUT/sentinel"),
    "section that is an absolute path": _section("ABS/sentinel"),
    "section that is the folder above": _section(".."),
    "section that is a device": _section("../../../../../dev/null"),
    "section with a variable": _section("${HOME}/x", "write_bw_log"),
    "section with a command": _section("$(touch ABS/ran)", "write_lat_log"),
    "description with a command": _with("description=`touch ABS/ran` $(touch ABS/ran) (8k)?"),
    "name that is a path": _with("name=OUT/sentinel", "write_iops_log"),
    "name that is a path in the format": _with(
        "name=OUT/sentinel", "filename_format=x$jobname.$jobnum"
    ),
    "state of a name that is a path": _section("OUT/state", "verify=md5"),
    "several paths": _section("OUT/a") + _section("OUT_a") + _section("OUT/a"),
}


def _placed(text: str, out: str, folder: str) -> str:
    return text.replace("OUT", out).replace("ABS", folder)


def refused(out: str = "../../outside", folder: str = "/outside") -> dict[str, tuple[str, str]]:
    """Text and a part of its refusal, by name."""
    return {
        name: (_placed(text, out, folder), _placed(part, out, folder))
        for name, (text, part) in _REFUSED.items()
    }


def kept(out: str = "../../outside", folder: str = "/outside") -> dict[str, str]:
    """Text by name."""
    return {name: _placed(text, out, folder) for name, text in _KEPT.items()}


def as_bytes() -> dict[str, bytes]:
    """What no text can hold."""
    return {
        "latin-1": _with("description=\xe9").encode("latin-1"),
        "utf-16": _with().encode("utf-16"),
    }


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "hostile.fio"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
