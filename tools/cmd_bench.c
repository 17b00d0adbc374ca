// SPDX-License-Identifier: GPL-2.0
/*
 * bench: measure throughput and latency.
 *
 * Runs alternate: each workload in each way, then all of them again, so that slow changes
 * of the machine affect all of them alike.
 */
#include <unistd.h>

#include "bench/load/bench_load.h"

/*
 * Leave io_uring out of the defaults if the kernel does not offer it.  If the user asked
 * for it, that is an error: the library's fallback would be measured under its name.
 */
static void settle_uring(struct plan *plan, const struct target *target)
{
	unsigned int i, nr = 0;

	if (!target->kv || target_has_uring(target))
		return;
	for (i = 0; i < plan->nr_series; i++) {
		if (plan->series[i].driver != &driver_uring)
			plan->series[nr++] = plan->series[i];
		else if (plan->series_chosen)
			die("--via %s: this kernel offers no kvtree on io_uring: see kvtree info",
			    plan->series[i].name);
	}
	plan->nr_series = nr;
}

static void open_trace(struct crew *crew, struct outfile *file)
{
	if (!crew->plan->trace)
		return;
	outfile_open(file, crew->plan->trace);
	crew->trace = file->out;
}

/* Remove the trace of an interrupted run. */
static void close_trace(const struct crew *crew, struct outfile *file)
{
	if (!crew->trace)
		return;
	if (crew_interrupted())
		outfile_drop(file);
	else
		outfile_commit(file);
}

static void make_results(struct report *rep, const struct plan *plan)
{
	unsigned int w, s;

	rep->nr = plan->nr_workloads * plan->nr_series;
	rep->result = alloc(NULL, rep->nr * sizeof(*rep->result));
	for (w = 0; w < plan->nr_workloads; w++)
		for (s = 0; s < plan->nr_series; s++)
			result_init(&rep->result[w * plan->nr_series + s], plan,
				    &plan->workload[w], &plan->series[s]);
}

static void run_one(struct crew *crew, struct result *res, unsigned int run)
{
	const struct plan *plan = crew->plan;
	struct progress progress = { .unit = "operations" };
	char verb[96];

	crew->workload = res->workload;
	crew->series = res->series;
	snprintf(verb, sizeof(verb), "%s by %s, run %u of %u", res->workload->name,
		 res->series->name, run + 1, plan->runs);
	progress_start(&progress, verb, plan->progress, plan->operations);
	crew_run(crew, res, &progress);
	progress_end(&progress, NULL, 0, 0);
}

static void run_all(struct crew *crew, struct report *rep)
{
	unsigned int run, i;

	for (run = 0; run < crew->plan->runs; run++)
		for (i = 0; i < rep->nr && !crew_interrupted(); i++)
			run_one(crew, &rep->result[i], run);
}

static int answer(const struct report *rep)
{
	uint64_t errors = 0;
	unsigned int i;

	if (tool.json)
		report_json(rep);
	else
		report_text(rep);
	for (i = 0; i < rep->nr; i++)
		errors += result_errors(&rep->result[i]);
	if (errors)
		warn("bench: some operations failed, or found other data than was stored");
	if (crew_interrupted())
		warn("bench: interrupted; runs that were not finished are left out");
	return errors || crew_interrupted() ? STATUS_ERROR : STATUS_OK;
}

int cmd_bench(int argc, char **argv)
{
	struct plan plan;
	struct target target;
	struct report report = { .plan = &plan, .target = &target };
	struct crew crew = { .plan = &plan, .target = &target };
	struct outfile trace = { 0 };
	unsigned int i;
	int status;

	plan_parse(&plan, argc, argv);
	plan.progress = plan.progress || isatty(STDERR_FILENO);
	if (plan.plot)
		plot_check(plan.plot);
	open_trace(&crew, &trace);
	crew_catch_signals();
	target_open(&target, &plan);
	settle_uring(&plan, &target);
	target_load(&target);
	crew.shared = crew_shared(plan_clients(&plan));
	make_results(&report, &plan);
	run_all(&crew, &report);
	close_trace(&crew, &trace);
	status = answer(&report);
	target_end();
	if (plan.plot)
		plot_write(&report);
	for (i = 0; i < report.nr; i++)
		result_free(&report.result[i]);
	free(report.result);
	return status;
}
