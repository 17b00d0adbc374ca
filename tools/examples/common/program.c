// SPDX-License-Identifier: GPL-2.0
/* BPF programs: what the kernel says of them, and where they stay. */
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

/* Of a long one the end matters, where the verifier says why. */
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
 * program_begin() - before anything is loaded
 *
 * What libbpf says is kept until program_check().
 */
void program_begin(void)
{
	said_size = 0;
	libbpf_set_print(keep);
}

/**
 * program_check() - exit if it did not work, and say why
 * @err: 0 or a negative errno
 * @what: what was tried
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

/* Programs and links that outlive their process are files there. */
static void need_bpffs(void)
{
	struct statfs fs;

	if (!statfs(BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC)
		return;
	if (mount("bpf", BPFFS, "bpf", 0, "mode=0700"))
		die("cannot mount a bpf file system at " BPFFS ": %m");
}

/**
 * pin_path() - where a program's link is pinned
 * @program: the example's name: a folder
 * @name: which link
 *
 * The folder is made.  Exits if it cannot be.
 *
 * Return: the path, in memory of this function's own
 */
const char *pin_path(const char *program, const char *name)
{
	static char path[PATH_MAX];
	size_t len;

	need_bpffs();
	len = (size_t)snprintf(path, sizeof(path), BPFFS "/kvtree-%s", program);
	if (mkdir(path, 0700) && errno != EEXIST)
		die("cannot make %s: %m", path);
	snprintf(path + len, sizeof(path) - len, "/%s", name);
	return path;
}
