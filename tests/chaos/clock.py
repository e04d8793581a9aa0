"""A program whose clock is wrong by hours, and nothing else of it.

`faketime` does that for most programs. But Python's `time.sleep` fails under it, or its locks wait
for hours, and Redis ends, since jemalloc and libfaketime call each other.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

COMPILER = "cc"
SOURCE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    const char *seconds = getenv("CLOCK_AHEAD");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""


def can_be_wrong() -> bool:
    return shutil.which(COMPILER) is not None


def wrong_by(hours: int, folder: Path) -> list[str]:
    """The words ahead of a command whose clock is so many hours ahead; `folder` has the library."""
    library = folder / "clock.so"
    if not library.exists():
        source = folder / "clock.c"
        source.write_text(SOURCE)
        command = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
    return ["env", f"LD_PRELOAD={library}", f"CLOCK_AHEAD={hours * 3600}"]
