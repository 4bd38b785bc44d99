# SPDX-License-Identifier: Apache-2.0
"""The rate of this machine's time stamp counter, which guests read as their own. A guest that is given the rate need not
measure it at boot, where a busy machine spoils the measurement."""
import ctypes
import mmap
import platform
import time

READ = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"  # rdtsc; shl $32, %rdx; or %rdx, %rax; ret
MEASURED_S = 0.2
TRIES = 50  # the shortest of them was not interrupted


def counter():
    """A function that reads the counter."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(READ)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    read.code = code
    return read


def moment(read):
    """(time in nanoseconds, counter) of a moment."""
    tries = []
    for _ in range(TRIES):
        before, count, after = time.monotonic_ns(), read(), time.monotonic_ns()
        tries.append((after - before, (before + after) / 2, count))
    return min(tries)[1:]


def khz():
    """The rate. None on machines of another kind."""
    if platform.machine() != "x86_64":
        return None
    read = counter()
    first_ns, first = moment(read)
    time.sleep(MEASURED_S)
    last_ns, last = moment(read)
    return round((last - first) * 1e6 / (last_ns - first_ns))
