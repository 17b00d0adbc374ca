// SPDX-License-Identifier: GPL-2.0
/* Load errors of BPF programs, and where their links are pinned. */
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "example.h"

#define BPFFS	"/sys/fs/bpf"

static char *said;
static size_t said_size;

/* Keep the end of a long log, where the verifier explains its verdict. */
#define SAID_MAX	16384

static int keep(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char text[4096];
	size_t len;

	if (level == LIBBPF_DEBUG)
		return 0;
	len = (size_t)vsnprintf(text, sizeof(text), fmt, ap);
	if (len >= sizeof(text))
		len = sizeof(text) - 1;
	if (said_size + len > SAID_MAX)
		said_size = 0;
	said = alloc(said, SAID_MAX + 1);
	memcpy(said + said_size, text, len + 1);
	said_size += len;
	return 0;
}

/**
 * program_begin() - prepare for loading programs
 *
 * Keeps libbpf's messages for program_check().
 */
void program_begin(void)
{
	said_size = 0;
	libbpf_set_print(keep);
}

/**
 * program_check() - print messages and exit if an action failed
 * @err: 0 or a negative errno
 * @what: the action
 */
void program_check(int err, const char *what)
{
	if (!err)
		return;
	if (said_size)
		fputs(said, stderr);
	if (err == -EPERM)
		die("%s: not permitted: this needs root", what);
	die("%s: %s", what, strerror(-err));
}

/* Pinned programs and links are files of this file system. */
static void need_bpffs(void)
{
	struct statfs fs;

	if (!statfs(BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC)
		return;
	if (mount("bpf", BPFFS, "bpf", 0, "mode=0700"))
		die("cannot mount a bpf file system at " BPFFS ": %m");
}

/**
 * pin_path() - the path for pinning a program's link
 * @program: the example's name, used as a folder
 * @name: the link's name
 *
 * Creates the folder.  Exits on failure.
 *
 * Return: the path, in static memory
 */
const char *pin_path(const char *program, const char *name)
{
	static char path[PATH_MAX];
	size_t len;

	need_bpffs();
	len = (size_t)snprintf(path, sizeof(path), BPFFS "/kvtree-%s", program);
	if (mkdir(path, 0700) && errno != EEXIST)
		die("cannot create %s: %m", path);
	snprintf(path + len, sizeof(path) - len, "/%s", name);
	return path;
}
