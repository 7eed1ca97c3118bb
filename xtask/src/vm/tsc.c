// Prints the frequency of the time stamp counter in kHz. A guest with a known frequency does not
// measure it, which goes wrong by factors on a busy host.
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct Pair {
    double seconds;
    unsigned long long ticks;
};

// Both clocks at one instant: the closest of many readings.
static struct Pair read_both(void)
{
    struct Pair best = {0, 0};
    double closest = 1e9;
    for (int i = 0; i < 200; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC_RAW, &a);
        unsigned long long ticks = __rdtsc();
        clock_gettime(CLOCK_MONOTONIC_RAW, &b);
        double from = a.tv_sec + a.tv_nsec / 1e9, to = b.tv_sec + b.tv_nsec / 1e9;
        if (to - from < closest) {
            closest = to - from;
            best = (struct Pair){(from + to) / 2, ticks};
        }
    }
    return best;
}

int main(void)
{
    struct timespec pause = {0, 100000000};
    struct Pair begin = read_both();
    nanosleep(&pause, 0);
    struct Pair end = read_both();
    printf("%.0f\n", (end.ticks - begin.ticks) / (end.seconds - begin.seconds) / 1e3);
    return 0;
}
