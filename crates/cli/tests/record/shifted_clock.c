/* Loaded before the system's library: a wall clock that is wrong, and a machine that was suspended, by the seconds that a
   file says: "WRONG SUSPENDED". Monotonic time counts neither, as on Linux. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void shifts(long long *wrong, long long *suspended) {
    char text[64] = {0};
    const char *file = getenv("SHIFT_FILE");
    *wrong = *suspended = 0;
    int fd = file ? syscall(SYS_openat, AT_FDCWD, file, O_RDONLY) : -1;
    if (fd >= 0) {
        if (read(fd, text, sizeof text - 1) > 0) {
            char *rest;
            *wrong = strtoll(text, &rest, 10);
            *suspended = strtoll(rest, 0, 10);
        }
        close(fd);
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int answer = syscall(SYS_clock_gettime, clock, time);
    if (answer == 0 && clock == CLOCK_REALTIME) {
        long long wrong, suspended;
        shifts(&wrong, &suspended);
        time->tv_sec += wrong + suspended;
    }
    return answer;
}

/* The time since the machine was started is read from a file. */
int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if (strcmp(path, "/proc/uptime") != 0)
        return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    long long wrong, suspended;
    struct timespec up;
    shifts(&wrong, &suspended);
    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &up);
    int fd = memfd_create("uptime", 0);
    dprintf(fd, "%lld.%02ld 0.00\n", up.tv_sec + suspended, up.tv_nsec / 10000000);
    lseek(fd, 0, SEEK_SET);
    return fd;
}
