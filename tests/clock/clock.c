/*
 * A settable wall clock for a server under test.
 *
 * A rate limiter is about time, and a test that sleeps is slow and never
 * exact. Loaded into a server with LD_PRELOAD, this library answers the
 * server's questions for the time of day from a file that the test writes:
 *
 *   cc -shared -fPIC -O2 -o librlclock.so clock.c
 *   RL_CLOCK_FILE=clock LD_PRELOAD=./librlclock.so redis-server
 *
 * The file holds one native int64: microseconds since the epoch. The test
 * writes it and the very next reading in the server is that time, because
 * both map the same page. 0 is the real clock, and so is no file at all.
 *
 * Only the wall clock is set (CLOCK_REALTIME, its coarse twin, gettimeofday
 * and time). The monotonic clock stays real: it drives the server's event
 * loop and its timers, which a clock that stands still would stop. What a
 * server does wait for by the wall clock waits until the test moves it: a
 * primary, for one, sends nothing to a new replica before the seconds of
 * repl-diskless-sync-delay are over, so set that to 0.
 *
 * Valkey 9 asks for the time of day only once a millisecond and in between adds
 * what the processor's cycle counter says. That would blur a set clock by a
 * millisecond. It does so only if /proc/cpuinfo vouches for the counter, so
 * that file is kept from it and it asks each time, like every other server.
 *
 * Readings passed on to the real clock are plain system calls and not the
 * libc function found by dlsym: dlsym may allocate, and an allocator that asks
 * for the time while it starts (jemalloc does) would then wait for itself.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MICROS 1000000

/* Read until the constructor below has mapped the file, and for good if there
 * is none. So a reading needs no test for a null pointer. */
static _Atomic int64_t real_clock;
static _Atomic int64_t *clock_us = &real_clock;

__attribute__((constructor)) static void map_clock_file(void) {
    const char *path = getenv("RL_CLOCK_FILE");
    if (path == NULL) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat st;
    /* A read past the end of a mapped file kills the process. */
    if (fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof(int64_t)) {
        void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
        if (page != MAP_FAILED) clock_us = page;
    }
    close(fd);
}

/* The time that was set, or 0 for the real clock. */
static int64_t set_time(void) {
    int64_t us = atomic_load_explicit(clock_us, memory_order_acquire);
    return us > 0 ? us : 0;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
        int64_t us = set_time();
        if (us != 0) {
            ts->tv_sec = us / MICROS;
            ts->tv_nsec = us % MICROS * 1000;
            return 0;
        }
    }
    return (int)syscall(SYS_clock_gettime, id, ts);
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
    if (tz != NULL) *(struct timezone *)tz = (struct timezone){0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    tv->tv_sec = now.tv_sec;
    tv->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) *out = now.tv_sec;
    return now.tv_sec;
}

/* Not a hot path: servers open files by name when they start, load and save. */
static FILE *open_unless_hidden(const char *real, const char *path, const char *mode) {
    if (clock_us != &real_clock && strcmp(path, "/proc/cpuinfo") == 0) {
        errno = ENOENT;
        return NULL;
    }
    FILE *(*libc_fopen)(const char *, const char *);
    *(void **)&libc_fopen = dlsym(RTLD_NEXT, real);
    return libc_fopen(path, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    return open_unless_hidden("fopen", path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode) {
    return open_unless_hidden("fopen64", path, mode);
}
