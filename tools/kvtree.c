// SPDX-License-Identifier: GPL-2.0
/*
 * kvtree - put, get, scan, load and dump the stores of the kvtree kernel
 * module.
 */
#include <locale.h>

#include "tool.h"

struct tool tool;

static const struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "put", "store a value", cmd_put },
	{ "get", "look a key up", cmd_get },
	{ "del", "remove keys", cmd_del },
	{ "cas", "store a value if nobody has changed it (compare-and-swap)", cmd_cas },
	{ "add", "add to a number", cmd_add },
	{ "scan", "list a range of keys, or those with a prefix", cmd_scan },
	{ "load", "store all records of a file", cmd_load },
	{ "dump", "write all records to a file that load reads", cmd_dump },
	{ "stat", "show a store's counters", cmd_stat },
	{ "info", "show the module's version and limits, and the store", cmd_info },
	{ "bpf", "let BPF programs use the store, and filter what is in it", cmd_bpf },
	{ "bench", "measure throughput and latency", cmd_bench },
	{ "store-create", "create a store", cmd_store_create },
	{ "store-list", "list the stores", cmd_store_list },
	{ "store-destroy", "destroy a store and all that it holds", cmd_store_destroy },
	{ "format", "make devices ready for a durable store", cmd_format },
	{ "attach", "make a store of what stands on devices", cmd_attach },
	{ "detach", "bring a durable store to its devices and take it away", cmd_detach },
	{ "sync", "wait until all changes of a durable store are on its devices", cmd_sync },
	{ "checkpoint", "write all of a durable store, to attach it faster", cmd_checkpoint },
	{ "probe", "show which devices belong to durable stores", cmd_probe },
	{ "check", "check what stands on the devices of a durable store", cmd_check },
};

static const struct command *find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

/* The program's name is "kvtree put" to the command: its messages say so. */
static int run(const struct command *cmd, int argc, char **argv)
{
	char name[64];

	snprintf(name, sizeof(name), "kvtree %s", cmd->name);
	argv[0] = name;
	return cmd->run(argc, argv);
}

static int help(int argc, char **argv)
{
	const struct command *cmd;
	char ask[] = "--help";
	char *args[3] = { 0 };

	if (argc < 2)
		return -1;
	cmd = find(argv[1]);
	if (!cmd) {
		warn("there is no command '%s': kvtree help lists them", argv[1]);
		return STATUS_USAGE;
	}
	args[1] = ask;
	return run(cmd, 2, args);
}

static char *list_commands(int key, const char *text, void *input)
{
	size_t i, len;
	FILE *out;
	char *buf;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	out = open_memstream(&buf, &len);
	if (!out)
		return NULL;
	fputs("Commands:\n", out);
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-14s %s\n", commands[i].name, commands[i].summary);
	fputs("\n\"kvtree help COMMAND\" tells more about one.\n\n"
	      "Exit status:\n"
	      "  0  it is done\n"
	      "  1  not found, or a condition did not hold: --create of a key that is\n"
	      "     there, --replace of one that is not, another version\n"
	      "  2  wrong usage\n"
	      "  3  an error\n\n"
	      "Examples:\n"
	      "  kvtree put hello world\n"
	      "  kvtree get hello\n"
	      "  kvtree scan --prefix lib --limit 10\n"
	      "  kvtree dump | gzip > all.gz; zcat all.gz | kvtree -s other load -\n", out);
	if (fclose(out)) {
		free(buf);
		return NULL;
	}
	return buf;
}

struct choice {
	char **argv;
	int argc;
};

static error_t parse_main(int key, char *arg, struct argp_state *state)
{
	struct choice *choice = state->input;

	(void)arg;
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	/* The command's own arguments are for the command to parse. */
	choice->argv = state->argv + state->next - 1;
	choice->argc = state->argc - state->next + 1;
	state->next = state->argc;
	return 0;
}

int main(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_main,
		.args_doc = "COMMAND [ARG...]",
		.doc = "Use the ordered key-value stores of the kvtree kernel module.\v",
		.children = common_options,
		.help_filter = list_commands,
	};
	struct choice choice = { 0 };
	const struct command *cmd;
	static char version[64];
	int status;

	/* Which bytes are text does not depend on the user's language. */
	setlocale(LC_CTYPE, "C.UTF-8");
	snprintf(version, sizeof(version), "kvtree %s", kvtree_version());
	argp_program_version = version;
	/* Not in every help text: what argp says about arguments of options. */
	setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
	argp_err_exit_status = STATUS_USAGE;

	argv[0] = (char *)"kvtree";
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice);
	if (choice.argc && !strcmp(choice.argv[0], "help")) {
		status = help(choice.argc, choice.argv);
		if (status < 0) {
			argp_help(&argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK,
				  (char *)"kvtree");
			status = STATUS_OK;
		}
	} else if (!choice.argc) {
		argp_help(&argp, stderr, ARGP_HELP_USAGE | ARGP_HELP_SEE, (char *)"kvtree");
		status = STATUS_USAGE;
	} else {
		cmd = find(choice.argv[0]);
		if (!cmd) {
			warn("there is no command '%s': kvtree help lists them",
			     choice.argv[0]);
			return STATUS_USAGE;
		}
		status = run(cmd, choice.argc, choice.argv);
	}
	/* A full disk shows when the output is written out, not before. */
	if (fflush(stdout) || ferror(stdout)) {
		warn("cannot write the output: %m");
		status = STATUS_ERROR;
	}
	return status;
}
