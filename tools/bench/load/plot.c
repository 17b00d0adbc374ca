// SPDX-License-Identifier: GPL-2.0
/*
 * Results as a picture, drawn by tools/bench/plots.py, which is beside the tool in a build, or
 * below share when installed.
 */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_load.h"

static const char * const places[] = { "bench/plots.py", "../share/kvtree/plots.py" };

static void find_script(char *path, size_t size)
{
	char self[PATH_MAX] = "";
	const char *dir;
	size_t i;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("--plot: cannot read /proc/self/exe: %m");
	dir = dirname(self);
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, size, "%s/%s", dir, places[i]);
		if (!access(path, R_OK))
			return;
	}
	die("--plot: cannot find plots.py with the tool or in %s/../share/kvtree", dir);
}

static void run_script(const char *option, int in, int out)
{
	char script[2 * PATH_MAX];
	char name[] = "python3", *argv[] = { name, script, (char *)option, NULL };
	posix_spawn_file_actions_t act;
	int err, status;
	pid_t pid;

	find_script(script, sizeof(script));
	posix_spawn_file_actions_init(&act);
	posix_spawn_file_actions_adddup2(&act, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&act, out, STDOUT_FILENO);
	err = posix_spawnp(&pid, name, &act, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&act);
	if (err)
		die("--plot: cannot start python3, which draws the picture: %s", strerror(err));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die("--plot: %s failed", script);
}

/* Checks the same as outfile_open() later: it replaces a regular file by a new one. */
static void check_file(const char *path)
{
	char *copy, *dir;
	struct stat st;
	bool exists;

	exists = !stat(path, &st);
	if (exists && access(path, W_OK))
		die("--plot: cannot write %s: %m", path);
	if (exists && !S_ISREG(st.st_mode))
		return;
	copy = exists ? realpath(path, NULL) : strdup(path);
	if (!copy)
		die("--plot: cannot write %s: %m", path);
	dir = dirname(copy);
	if (access(dir, W_OK | X_OK))
		die("--plot: cannot write into %s: %m", dir);
	free(copy);
}

/**
 * plot_check() - check that a picture can be written, before measuring
 * @path: the output file
 *
 * Exits if it cannot.
 */
void plot_check(const char *path)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		die("cannot open /dev/null: %m");
	check_file(path);
	run_script("--help", null, null);
	close(null);
}

/**
 * plot_write() - write the picture for --plot
 * @rep: the results
 */
void plot_write(const struct report *rep)
{
	json_t *results = report_results(rep, true);
	FILE *json = tmpfile();
	struct outfile svg;

	if (!json)
		die("--plot: cannot create a temporary file: %m");
	if (json_dumpf(results, json, 0) || fflush(json) || lseek(fileno(json), 0, SEEK_SET))
		die("--plot: cannot write a temporary file: %m");
	json_decref(results);
	outfile_open(&svg, rep->plan->plot);
	run_script("--results", fileno(json), fileno(svg.out));
	outfile_commit(&svg);
	fclose(json);
}
