// SPDX-License-Identifier: GPL-2.0
/*
 * Output files of commands.
 *
 * An existing file is replaced when the new one is complete on the disk: an error, a full disk
 * or a crash leaves the old file.  Until then the new file has no name, so that nothing is left
 * however the program ends, or a temporary name if the file system does not support files
 * without names.  Other files, such as pipes, are written directly.
 */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

/* The temporary file, to be removed if the program ends before it is complete. */
static char *unfinished;

static void remove_unfinished(void)
{
	if (unfinished)
		unlink(unfinished);
}

static void on_signal(int nr)
{
	remove_unfinished();
	signal(nr, SIG_DFL);
	raise(nr);
}

static void watch_signals(void)
{
	static const int ends[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ends); i++)
		if (signal(ends[i], on_signal) == SIG_IGN)
			signal(ends[i], SIG_IGN);
}

/* Like the old file, which the caller must be allowed to write, or like any new file. */
static void set_owner_and_mode(int fd, const char *path, const struct stat *old)
{
	mode_t mask = umask(0);

	umask(mask);
	if (!old) {
		if (fchmod(fd, 0666 & ~mask))
			die("cannot write %s: %m", path);
		return;
	}
	if (access(path, W_OK))
		die("cannot open %s: %m", path);
	/* Only root may give a file away: other users keep the new one. */
	if (fchown(fd, old->st_uid, old->st_gid) && errno != EPERM)
		die("cannot write %s: %m", path);
	if (fchmod(fd, old->st_mode & 0777))
		die("cannot write %s: %m", path);
}

static void remove_if_unfinished(char *part)
{
	unfinished = part;
	atexit(remove_unfinished);
	watch_signals();
}

/* A file without a name, in the folder of another file; or -1. */
static int open_unnamed(const char *path)
{
	char *copy = strdup(path);
	int fd;

	if (!copy)
		return -1;
	fd = open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	free(copy);
	return fd;
}

/* With the mode of mkostemp(). */
static int open_named(char *part, const char *path)
{
	int fd = mkostemp(part, O_CLOEXEC);

	if (fd < 0)
		die("cannot create a file beside %s: %m", path);
	remove_if_unfinished(part);
	return fd;
}

/* Link the file to an unused name, before it is renamed to the final one. */
static bool give_name(struct outfile *f)
{
	char *digits = f->part + strlen(f->part) - 6, path[32];
	uint32_t random;
	int err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(f->out));
	do {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return false;
		snprintf(digits, 7, "%06x", random & 0xffffff);
		err = linkat(AT_FDCWD, path, AT_FDCWD, f->part, AT_SYMLINK_FOLLOW) ? errno : 0;
	} while (err == EEXIST);
	if (!err)
		remove_if_unfinished(f->part);
	errno = err;
	return !err;
}

/**
 * outfile_open() - begin to write a file; exits if it cannot
 * @f: filled; outfile_commit() or outfile_drop() must follow
 * @path: of the file; NULL: standard output
 */
void outfile_open(struct outfile *f, const char *path)
{
	struct stat st;
	bool exists;
	int fd;

	*f = (struct outfile){ .out = stdout, .path = path };
	if (!path)
		return;
	exists = !stat(path, &st);
	if (exists && !S_ISREG(st.st_mode)) {
		f->out = fopen(path, "we");
		if (!f->out)
			die("cannot open %s: %m", path);
		return;
	}
	/* The file itself, not a link to it. */
	f->final = exists ? realpath(path, NULL) : strdup(path);
	if (!f->final || asprintf(&f->part, "%s.XXXXXX", f->final) < 0)
		die("cannot open %s: %m", path);
	fd = access("/proc/self/fd", X_OK) ? -1 : open_unnamed(f->final);
	f->unnamed = fd >= 0;
	if (!f->unnamed)
		fd = open_named(f->part, path);
	set_owner_and_mode(fd, f->final, exists ? &st : NULL);
	f->out = fdopen(fd, "w");
	if (!f->out)
		die("cannot open %s: %m", path);
}

/* Syncing the folder makes the name durable. */
static bool sync_folder(const struct outfile *f)
{
	char *copy = strdup(f->final);
	int fd, err;

	if (!copy)
		return false;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = fd < 0 ? errno : 0;
	/* Some file systems have nothing to sync. */
	if (!err && fsync(fd) && errno != EINVAL)
		err = errno;
	if (fd >= 0)
		close(fd);
	free(copy);
	errno = err;
	return !err;
}

static void outfile_end(struct outfile *f)
{
	unfinished = NULL;
	free(f->part);
	free(f->final);
	*f = (struct outfile){ 0 };
}

/**
 * outfile_commit() - finish a complete file; exits if it cannot be written
 * @f: of outfile_open()
 */
void outfile_commit(struct outfile *f)
{
	const char *what = f->path ? f->path : "the output";

	if (fflush(f->out) || ferror(f->out))
		die("cannot write %s: %m", what);
	if (f->part && fsync(fileno(f->out)))
		die("cannot write %s: %m", what);
	if (f->unnamed && !give_name(f))
		die("cannot write %s: %m", what);
	if (f->out != stdout && fclose(f->out))
		die("cannot write %s: %m", what);
	if (f->part) {
		if (rename(f->part, f->final))
			die("cannot write %s: %m", what);
		unfinished = NULL;
		if (!sync_folder(f))
			die("cannot write %s: %m", what);
	}
	outfile_end(f);
}

/**
 * outfile_drop() - drop an incomplete file: the old one stays
 * @f: of outfile_open()
 */
void outfile_drop(struct outfile *f)
{
	if (f->out != stdout)
		fclose(f->out);
	remove_unfinished();
	outfile_end(f);
}
