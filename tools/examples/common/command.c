// SPDX-License-Identifier: GPL-2.0
/* Programs with commands: the first argument names the command. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "example.h"

static const struct command *all;
static size_t all_nr;
static struct {
	char **argv;
	int argc;
} rest;

static error_t parse_main(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	/* Leave the command's own arguments to it. */
	rest.argv = state->argv + state->next - 1;
	rest.argc = state->argc - state->next + 1;
	state->next = state->argc;
	return 0;
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
	for (i = 0; i < all_nr; i++)
		fprintf(out, "  %-10s %s\n", all[i].name, all[i].summary);
	fprintf(out, "\n\"%s COMMAND --help\" tells more about one.\n",
		program_invocation_short_name);
	fputs("\nExit status: 0 it is done, 1 not found or a conflict, 2 wrong usage,\n"
	      "3 an error.\n", out);
	if (fclose(out)) {
		free(buf);
		return NULL;
	}
	return buf;
}

static const struct command *find(const char *name)
{
	size_t i;

	for (i = 0; i < all_nr; i++)
		if (!strcmp(all[i].name, name))
			return &all[i];
	return NULL;
}

/**
 * run_command() - run the command that the first argument names
 * @commands: the commands
 * @nr: their number
 * @doc: the program's description
 * @argc: main()'s
 * @argv: main()'s
 *
 * Return: the exit status
 */
int run_command(const struct command *commands, size_t nr, const char *doc, int argc,
		char **argv)
{
	const struct argp argp = {
		.parser = parse_main,
		.args_doc = "COMMAND [ARG...]",
		.doc = doc,
		.help_filter = list_commands,
	};
	const struct command *command;
	static char name[64];
	int status;

	all = commands;
	all_nr = nr;
	/* Leave out argp's note about arguments of options. */
	setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
	argp_err_exit_status = STATUS_USAGE;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	if (!rest.argc) {
		argp_help(&argp, stderr, ARGP_HELP_USAGE | ARGP_HELP_SEE,
			  program_invocation_short_name);
		return STATUS_USAGE;
	}
	command = find(rest.argv[0]);
	if (!command) {
		warn("there is no command '%s': see %s --help", rest.argv[0],
		     program_invocation_short_name);
		return STATUS_USAGE;
	}
	snprintf(name, sizeof(name), "%s %s", program_invocation_short_name, command->name);
	rest.argv[0] = name;
	status = command->run(rest.argc, rest.argv);
	/* A full disk may show only when the output is flushed. */
	if (fflush(stdout) || ferror(stdout)) {
		warn("cannot write the output: %m");
		status = STATUS_ERROR;
	}
	return status;
}
