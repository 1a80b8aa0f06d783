"""Runs in the guest: carries out commands that come over a virtio port, one after the other.

A request is a line of JSON (`argv`, `stdin_bytes`, `bound_s`) and so many bytes of input. The
answer is a line of JSON (`status`, `out_bytes`, `err_bytes`) and the bytes of both outputs.
"""

import json
import os
import signal
import subprocess
import time

PORT = "/dev/virtio-ports/leadline"
LATE = 124


def carry_out(argv, given, bound_s):
    """Status, output and errors of a command; whatever it began ends with its time."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as fault:
        return 127, b"", str(fault).encode()
    try:
        out, err = process.communicate(given, timeout=bound_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return LATE, out, err + f"\nkilled after {bound_s} s".encode()
    return process.returncode, out, err


def read(port, wanted):
    """So many bytes. A port whose other end is away gives none for a while."""
    pieces = []
    while wanted:
        piece = os.read(port, min(wanted, 1 << 16))
        if not piece:
            time.sleep(0.1)
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces)


def line(port):
    """One line. Read byte by byte: what follows it is another's."""
    said = b""
    while not said.endswith(b"\n"):
        said += read(port, 1)
    return json.loads(said)


def write(port, *pieces):
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(port, rest[: 1 << 16]) :]


def main():
    port = os.open(PORT, os.O_RDWR)
    write(port, b'{"ready": true}\n')
    while True:
        asked = line(port)
        if "argv" not in asked:
            return
        given = read(port, asked["stdin_bytes"])
        status, out, err = carry_out(asked["argv"], given, asked["bound_s"])
        told = {"status": status, "out_bytes": len(out), "err_bytes": len(err)}
        write(port, json.dumps(told).encode() + b"\n", out, err)


if __name__ == "__main__":
    main()
