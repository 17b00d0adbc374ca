// SPDX-License-Identifier: GPL-2.0
/*
 * Results as a picture, drawn by gnuplot: throughput of all on top, and below it
 * a panel for each workload with a latency curve for each way.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define WIDTH		1200
#define BARS_HEIGHT	420
#define PANEL_HEIGHT	340
#define TITLE_HEIGHT	40
#define PANELS_MAX	3	/* side by side */

/* A curve's steps, in powers of ten of the share that took longer. */
#define STEP		0.02
#define X_MAX		6.0

static pid_t run_gnuplot(const char *arg, int in, int out)
{
	char name[] = "gnuplot", *argv[] = { name, (char *)arg, NULL };
	posix_spawn_file_actions_t act;
	pid_t pid;
	int err;

	posix_spawn_file_actions_init(&act);
	posix_spawn_file_actions_adddup2(&act, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&act, out, STDOUT_FILENO);
	err = posix_spawnp(&pid, name, &act, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&act);
	if (err)
		die("--plot: cannot start gnuplot: %s%s", strerror(err),
		    err == ENOENT ? "; it draws the picture (Debian: gnuplot-nox)" : "");
	return pid;
}

static void end_gnuplot(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die("--plot: gnuplot failed");
}

static void check_file(const char *path)
{
	char *copy, *dir;

	if (!access(path, F_OK)) {
		if (access(path, W_OK))
			die("--plot: cannot write %s: %m", path);
		return;
	}
	copy = strdup(path);
	if (!copy)
		die("out of memory");
	dir = dirname(copy);
	if (access(dir, W_OK | X_OK))
		die("--plot: cannot write into %s: %m", dir);
	free(copy);
}

/**
 * plot_check() - see whether a picture can be made, before it takes an hour
 * @path: the file to be written
 *
 * Exits if it cannot.
 */
void plot_check(const char *path)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		die("cannot open /dev/null: %m");
	check_file(path);
	end_gnuplot(run_gnuplot("--version", null, null));
	close(null);
}

static unsigned int panels_across(const struct plan *plan)
{
	return plan->nr_workloads < PANELS_MAX ? plan->nr_workloads : PANELS_MAX;
}

static unsigned int height(const struct plan *plan)
{
	unsigned int across = panels_across(plan);

	return TITLE_HEIGHT + BARS_HEIGHT +
	       PANEL_HEIGHT * ((plan->nr_workloads + across - 1) / across);
}

static const struct result *result_of(const struct report *rep, unsigned int w, unsigned int s)
{
	return &rep->result[w * rep->plan->nr_series + s];
}

/* A line for each workload: its name, and of each series median, min and max. */
static void write_bars_data(FILE *out, const struct report *rep)
{
	const struct plan *plan = rep->plan;
	unsigned int w, s;

	fputs("$throughput << END\n", out);
	for (w = 0; w < plan->nr_workloads; w++) {
		fprintf(out, "\"%s\"", plan->workload[w].name);
		for (s = 0; s < plan->nr_series; s++) {
			const struct result *res = result_of(rep, w, s);

			fprintf(out, " %.1f %.1f %.1f", result_median(res), result_min(res),
				result_max(res));
		}
		fputc('\n', out);
	}
	fputs("END\n", out);
}

static void write_bars(FILE *out, const struct report *rep)
{
	const struct plan *plan = rep->plan;
	unsigned int s;

	write_bars_data(out, rep);
	fprintf(out,
		"set origin 0,%f\nset size 1,%f\n"
		"set style data histogram\nset style histogram errorbars gap 1 lw 1\n"
		"set style fill solid 0.7 border -1\nset boxwidth 0.9\n"
		"set title 'Throughput'\nset ylabel 'operations per second'\n"
		"set format y '%%.0s%%c'\nset yrange [0:*]\nset grid y\n"
		"set key outside right top\nset xlabel 'workload'\n",
		1 - (double)(TITLE_HEIGHT + BARS_HEIGHT) / height(plan),
		(double)BARS_HEIGHT / height(plan));
	for (s = 0; s < plan->nr_series; s++)
		fprintf(out, "%s $throughput using %u:%u:%u%s lt %u title '%s'",
			s ? "," : "plot", 2 + 3 * s, 3 + 3 * s, 4 + 3 * s, s ? "" : ":xtic(1)",
			s + 1, plan->series[s].name);
	fputc('\n', out);
}

/*
 * A curve: for each share of the operations that took longer, as the power of
 * ten below 1, how long.  It ends where it would stand on less than one.
 */
static void write_curve_data(FILE *out, const struct result *res, unsigned int w, unsigned int s)
{
	const struct histogram *h = res->all;
	double x, end;

	fprintf(out, "$latency_%u_%u << END\n", w, s);
	end = h->count ? log10((double)h->count) : 0;
	for (x = 0; h->count && x <= end && x <= X_MAX; x += STEP)
		fprintf(out, "%.2f %.3f\n", x,
			(double)histogram_percentile(h, 100 - pow(10, 2 - x)) / 1e3);
	fputs("END\n", out);
}

/* Without data gnuplot would stop; an interrupted bench has none of some. */
static bool has_data(const struct report *rep, unsigned int w)
{
	unsigned int s;

	for (s = 0; s < rep->plan->nr_series; s++)
		if (result_of(rep, w, s)->all->count)
			return true;
	return false;
}

static void write_curves(FILE *out, const struct report *rep, unsigned int w)
{
	const struct plan *plan = rep->plan;
	const char *comma = "plot";
	unsigned int s;

	for (s = 0; s < plan->nr_series; s++)
		write_curve_data(out, result_of(rep, w, s), w, s);
	for (s = 0; s < plan->nr_series; s++) {
		if (!result_of(rep, w, s)->all->count)
			continue;
		fprintf(out, "%s $latency_%u_%u using 1:2 with lines lw 2 lt %u title '%s'",
			comma, w, s, s + 1, plan->series[s].name);
		comma = ",";
	}
	fputc('\n', out);
}

static void write_panel(FILE *out, const struct report *rep, unsigned int w)
{
	const struct plan *plan = rep->plan;
	unsigned int across = panels_across(plan);
	double width = 1.0 / across, high = (double)PANEL_HEIGHT / height(plan);
	double top = (double)(TITLE_HEIGHT + BARS_HEIGHT) / height(plan);
	char text[128];

	fprintf(out, "set origin %f,%f\nset size %f,%f\nset title '%s: %s'\n",
		width * (w % across), 1 - top - high * (w / across + 1), width, high,
		plan->workload[w].name, workload_text(&plan->workload[w], text, sizeof(text)));
	write_curves(out, rep, w);
}

static void write_panels(FILE *out, const struct report *rep)
{
	unsigned int w;

	fputs("set format y '%g'\nset yrange [*:*]\nset logscale y\nset grid x y\n"
	      "set key inside left top\nset ylabel 'latency in microseconds'\n"
	      "set xlabel 'percentile'\n"
	      "set xtics ('0' 0, '90' 1, '99' 2, '99.9' 3, '99.99' 4, '99.999' 5)\n", out);
	for (w = 0; w < rep->plan->nr_workloads; w++)
		if (has_data(rep, w))
			write_panel(out, rep, w);
}

static void write_script(FILE *out, const struct report *rep)
{
	const struct shape *shape = &rep->plan->shape;

	fprintf(out,
		"set terminal svg size %d,%u noenhanced font 'sans-serif,12' background '#ffffff'\n"
		"set multiplot title 'kvtree bench: %" PRIu64
		" records of %u x %u bytes; processes: %u, threads in each: %u'\n",
		WIDTH, height(rep->plan), shape->records, shape->fields, shape->field_size,
		rep->plan->processes, rep->plan->threads);
	write_bars(out, rep);
	write_panels(out, rep);
	fputs("unset multiplot\n", out);
}

/**
 * plot_write() - draw results into the file of --plot
 * @rep: the results
 */
void plot_write(const struct report *rep)
{
	FILE *script = tmpfile();
	int svg;

	if (!script)
		die("--plot: cannot make a temporary file: %m");
	write_script(script, rep);
	if (fflush(script) || lseek(fileno(script), 0, SEEK_SET))
		die("--plot: cannot write a temporary file: %m");
	svg = open(rep->plan->plot, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (svg < 0)
		die("--plot: cannot write %s: %m", rep->plan->plot);
	end_gnuplot(run_gnuplot("-", fileno(script), svg));
	if (close(svg))
		die("--plot: cannot write %s: %m", rep->plan->plot);
	fclose(script);
}
