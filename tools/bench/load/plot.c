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

#include "bench_load.h"

#define WIDTH		1200
#define BARS_HEIGHT	420
#define PANEL_HEIGHT	340
#define TITLE_HEIGHT	40
#define PANELS_MAX	3	/* side by side */

/* A curve's steps, in powers of ten of the share that took longer. */
#define STEP		0.02
#define X_MAX		6.0

/* What gnuplot has to say is shown if it fails: it warns of what is no matter. */
static void complain(FILE *said)
{
	char line[256];

	rewind(said);
	while (fgets(line, sizeof(line), said))
		fputs(line, stderr);
	die("--plot: gnuplot failed");
}

static void run_gnuplot(const char *arg, int in, int out)
{
	char name[] = "gnuplot", *argv[] = { name, (char *)arg, NULL };
	posix_spawn_file_actions_t act;
	FILE *said = tmpfile();
	int err, status;
	pid_t pid;

	if (!said)
		die("--plot: cannot make a temporary file: %m");
	posix_spawn_file_actions_init(&act);
	posix_spawn_file_actions_adddup2(&act, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&act, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&act, fileno(said), STDERR_FILENO);
	err = posix_spawnp(&pid, name, &act, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&act);
	if (err)
		die("--plot: cannot start gnuplot: %s%s", strerror(err),
		    err == ENOENT ? "; it draws the picture (Debian: gnuplot-nox)" : "");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		complain(said);
	fclose(said);
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
	run_gnuplot("--version", null, null);
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
			struct spread sp = result_spread(result_of(rep, w, s));

			fprintf(out, " %.1f %.1f %.1f", sp.median, sp.min, sp.max);
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
		"set format y '%%.0s%%c'\nset yrange [0:*]\nset offsets 0,0,graph 0.05,0\n"
		"set grid y\n"
		"set key outside right top\nset xlabel 'workload'\n",
		1 - (double)(TITLE_HEIGHT + BARS_HEIGHT) / height(plan),
		(double)BARS_HEIGHT / height(plan));
	for (s = 0; s < plan->nr_series; s++)
		fprintf(out, "%s $throughput using %u:%u:%u%s lt %u title '%s'",
			s ? "," : "plot", 2 + 3 * s, 3 + 3 * s, 4 + 3 * s, s ? "" : ":xtic(1)",
			s + 1, plan->series[s].name);
	fputc('\n', out);
}

static double curve_end(const struct result *res)
{
	double end = res->all->count ? log10((double)res->all->count) : 0;

	return end < X_MAX ? end : X_MAX;
}

/*
 * A curve: for each share of the operations that took longer, as the power of
 * ten below 1, how long.  It ends where it would stand on less than one.
 */
static void write_curve_data(FILE *out, const struct result *res, unsigned int w, unsigned int s)
{
	const struct histogram *h = res->all;
	double x;

	fprintf(out, "$latency_%u_%u << END\n", w, s);
	for (x = 0; h->count && x <= curve_end(res); x += STEP)
		fprintf(out, "%.2f %.3f\n", x,
			(double)histogram_percentile(h, 100 - pow(10, 2 - x)) / 1e3);
	fputs("END\n", out);
}

/* Where the longest curve of a workload ends; 0: it has none. */
static double panel_end(const struct report *rep, unsigned int w)
{
	double end = 0, one;
	unsigned int s;

	for (s = 0; s < rep->plan->nr_series; s++) {
		one = curve_end(result_of(rep, w, s));
		end = one > end ? one : end;
	}
	return end;
}

/* gnuplot makes room also for labels that stand outside of the range. */
static void write_axis(FILE *out, double end)
{
	static const char * const label[] = { "90", "99", "99.9", "99.99", "99.999", "99.9999" };
	unsigned int i;

	fprintf(out, "set xrange [0:%.2f]\nset xtics ('0' 0", end);
	if (end > log10(2))
		fprintf(out, ", '50' %.5f", log10(2));
	for (i = 0; i < ARRAY_SIZE(label) && i + 1 <= end; i++)
		fprintf(out, ", '%s' %u", label[i], i + 1);
	fputs(")\n", out);
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
	write_axis(out, panel_end(rep, w));
	write_curves(out, rep, w);
}

static void write_panels(FILE *out, const struct report *rep)
{
	unsigned int w;

	fputs("set format y '%g'\nset yrange [*:*]\nset logscale y\nset grid x y\n"
	      "unset key\nset rmargin 3\nset ylabel 'latency in microseconds'\n"
	      "set xlabel 'percentile'\nset offsets 0,0,0,0\n", out);
	/* Without a curve, as after an interruption, gnuplot would stop. */
	for (w = 0; w < rep->plan->nr_workloads; w++)
		if (panel_end(rep, w) > 0)
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
	run_gnuplot("-", fileno(script), svg);
	if (close(svg))
		die("--plot: cannot write %s: %m", rep->plan->plot);
	fclose(script);
}
