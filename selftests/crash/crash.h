/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of the crash tests. */
#ifndef CRASH_CRASH_H
#define CRASH_CRASH_H

#include <stddef.h>

/* Print an error and exit with status 2: the test itself has failed. */
void crash_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void crash_file_save(const char *path, const void *data, size_t len);
void *crash_file_load(const char *path, size_t len);

#endif /* CRASH_CRASH_H */
