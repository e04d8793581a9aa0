"""Programs whose clock is wrong by hours, from their start or all of a sudden.

`faketime` does that for most programs. But Python's `time.sleep` fails under it, or its locks wait
for hours, and Redis ends, since jemalloc and libfaketime call each other.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

COMPILER = "cc"
SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *seconds_ahead;

__attribute__((constructor)) static void find(void) {
    const char *name = getenv("CLOCK_FILE");
    int file = name ? open(name, O_RDONLY) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) seconds_ahead = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += seconds_ahead ? *seconds_ahead : 0;
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


class Clock:
    """That of all programs which have its `variables` when they start."""

    def __init__(self, folder: Path, hours: int = 0) -> None:
        folder.mkdir(exist_ok=True)
        self._file, library = folder / f"clock{hours:+}", folder / "clock.so"
        if not library.exists():
            source = folder / "clock.c"
            source.write_text(SOURCE)
            command = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
            subprocess.run(command, check=True)
        self.set(hours)
        self.variables = {"LD_PRELOAD": str(library), "CLOCK_FILE": str(self._file)}

    def set(self, hours: int) -> None:
        """Set it so many hours ahead, for programs that run as well."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("l", hours * 3600))

    def before(self) -> list[str]:
        """The words ahead of a command that has this clock."""
        return ["env", *(f"{name}={value}" for name, value in self.variables.items())]
