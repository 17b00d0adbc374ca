// SPDX-License-Identifier: GPL-2.0
/*
 * kvtree - put, get, scan, load and dump the stores of the kvtree kernel
 * module.
 */
#include <fcntl.h>
#include <locale.h>
#include <unistd.h>

#include "tool.h"

struct tool tool;

static const struct command {
	const char *name;	/* one word, or a group and a word */
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
	{ "shell", "run commands from a terminal or a file", cmd_shell },
	{ "store create", "create a store", cmd_store_create },
	{ "store list", "list the stores", cmd_store_list },
	{ "store set", "change the mode, owner or limits of a store", cmd_store_set },
	{ "store destroy", "destroy a store and everything in it", cmd_store_destroy },
	{ "store format", "prepare devices for a durable store", cmd_format },
	{ "store attach", "recover a durable store from its devices", cmd_attach },
	{ "store detach", "write a durable store out and release its devices", cmd_detach },
	{ "store sync", "wait until all changes are on the devices", cmd_sync },
	{ "store checkpoint", "write what has changed, to attach faster", cmd_checkpoint },
	{ "store probe", "show which devices belong to durable stores", cmd_probe },
	{ "store check", "check the devices of a durable store", cmd_check },
};

/**
 * command_count() - how many commands there are
 *
 * Return: their number
 */
size_t command_count(void)
{
	return ARRAY_SIZE(commands);
}

/**
 * command_name() - the name of a command
 * @i: its number, from 0
 *
 * Return: one or two words, or NULL after the last one
 */
const char *command_name(size_t i)
{
	return i < ARRAY_SIZE(commands) ? commands[i].name : NULL;
}

/* The number of words of a command's name that the arguments begin with. */
static int match(const struct command *cmd, int argc, char **argv)
{
	size_t len = strcspn(cmd->name, " ");

	if (!argc || strlen(argv[0]) != len || strncmp(cmd->name, argv[0], len))
		return 0;
	if (!cmd->name[len])
		return 1;
	return argc > 1 && !strcmp(argv[1], cmd->name + len + 1) ? 2 : 1;
}

/**
 * find() - find the command that the arguments name
 * @argc: number of arguments
 * @argv: the arguments, beginning with the command
 * @words: set to the number that name it; 0 if not even a group matches
 *
 * Return: the command, or NULL
 */
static const struct command *find(int argc, char **argv, int *words)
{
	const struct command *cmd;
	int n;

	*words = 0;
	for (cmd = commands; cmd < commands + ARRAY_SIZE(commands); cmd++) {
		n = match(cmd, argc, argv);
		if (n > *words)
			*words = n;
		if (n == (strchr(cmd->name, ' ') ? 2 : 1))
			return cmd;
	}
	return NULL;
}

/* List all commands, or those of a group. */
static void list_commands(FILE *out, const char *group)
{
	const struct command *cmd;

	fputs("Commands:\n", out);
	for (cmd = commands; cmd < commands + ARRAY_SIZE(commands); cmd++)
		if (!group || match(cmd, 1, (char **)&group))
			fprintf(out, "  %-16s  %s\n", cmd->name, cmd->summary);
}

/* Print a message about arguments in which find() has found no command. */
static int unknown(int argc, char **argv, int words)
{
	if (!words)
		warn("there is no command '%s': kvtree help lists them", argv[0]);
	else if (argc > 1)
		warn("there is no command '%s %s': kvtree help %s lists them", argv[0], argv[1],
		     argv[0]);
	else
		warn("'%s' is a group of commands: kvtree help %s lists them", argv[0], argv[0]);
	return STATUS_USAGE;
}

/* The command's messages name the program "kvtree put". */
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
	int words;

	cmd = find(argc, argv, &words);
	if (!cmd && words == 1 && argc == 1) {
		list_commands(stdout, argv[0]);
		return STATUS_OK;
	}
	if (!cmd)
		return unknown(argc, argv, words);
	args[1] = ask;
	return run(cmd, 2, args);
}

/* Run the command that the arguments name. */
static int dispatch(int argc, char **argv)
{
	const struct command *cmd;
	int words;

	cmd = find(argc, argv, &words);
	if (!cmd && words && argc == 2 && !strcmp(argv[1], "--help"))
		return help(1, argv);
	if (!cmd)
		return unknown(argc, argv, words);
	return run(cmd, argc - words + 1, argv + words - 1);
}

static char *help_filter(int key, const char *text, void *input)
{
	size_t len;
	FILE *out;
	char *buf;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	out = open_memstream(&buf, &len);
	if (!out)
		return NULL;
	list_commands(out, NULL);
	fputs("\n\"kvtree help COMMAND\" describes one, \"kvtree help store\" lists those\n"
	      "of a group.\n\n"
	      "Exit status:\n"
	      "  0  success\n"
	      "  1  not found, or a condition did not hold: --create of a key that\n"
	      "     exists, --replace of one that does not, another version\n"
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
	/* Leave the command's own arguments to it. */
	choice->argv = state->argv + state->next - 1;
	choice->argc = state->argc - state->next + 1;
	state->next = state->argc;
	return 0;
}

/**
 * run_arguments() - execute the program's arguments
 * @argc: number of arguments
 * @argv: the arguments, beginning with the program's name
 *
 * Return: the exit status
 */
int run_arguments(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_main,
		.args_doc = "COMMAND [ARG...]",
		.doc = "Use the ordered key-value stores of the kvtree kernel module.\v",
		.children = common_options,
		.help_filter = help_filter,
	};
	struct choice choice = { 0 };
	int status;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice);
	if (!choice.argc) {
		argp_help(&argp, stderr, ARGP_HELP_USAGE | ARGP_HELP_SEE, (char *)"kvtree");
		status = STATUS_USAGE;
	} else if (strcmp(choice.argv[0], "help")) {
		status = dispatch(choice.argc, choice.argv);
	} else if (choice.argc > 1) {
		status = help(choice.argc - 1, choice.argv + 1);
	} else {
		argp_help(&argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK,
			  (char *)"kvtree");
		status = STATUS_OK;
	}
	/* A full disk may show only when the output is flushed. */
	if (fflush(stdout) || ferror(stdout)) {
		warn("cannot write the output: %m");
		status = STATUS_ERROR;
	}
	return status;
}

/*
 * A device must not get the number of a closed standard stream: messages would be written into it.
 * The descriptors opened in their place cannot be used, as if they were closed.
 */
static void hold_standard_streams(void)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			exit(STATUS_ERROR);
}

int main(int argc, char **argv)
{
	static char version[64];

	hold_standard_streams();
	/* The user's language must not affect which bytes are text. */
	setlocale(LC_CTYPE, "C.UTF-8");
	snprintf(version, sizeof(version), "kvtree %s", kvtree_version());
	argp_program_version = version;
	/* Leave out argp's note about arguments of options. */
	setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
	argp_err_exit_status = STATUS_USAGE;

	tool.store = getenv("KVTREE_STORE");
	if (tool.store && !*tool.store)
		tool.store = NULL;
	argv[0] = (char *)"kvtree";
	return run_arguments(argc, argv);
}
