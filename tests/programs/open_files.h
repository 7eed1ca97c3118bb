/* How many files this process has open. */
#ifndef OPEN_FILES_H
#define OPEN_FILES_H

#include <dirent.h>

static inline int open_files(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

#endif
