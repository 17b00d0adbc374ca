// SPDX-License-Identifier: GPL-2.0
/*
 * shell: commands from a terminal, with editing, history and completion, or from a file.
 *
 * Each command runs in a child process: a command that exits or is interrupted ends only itself.
 */
#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef HAVE_LIBEDIT
#include <editline/readline.h>
#endif

#include "tool.h"

#define WORDS_MAX	1024
#define HISTORY_FILE	".kvtree_history"

enum { OPT_KEEP_GOING = 256 };

struct shell {
	const char *path;	/* NULL: standard input */
	bool keep_going;
	bool interactive;
	FILE *in;
	unsigned long line_nr;
};

/* The words of a line. */
struct words {
	char *word[WORDS_MAX + 1];
	int nr;
};

/* Copy a literal character, or end a quotation. */
static char *take_char(char *from, char **to, char *quote)
{
	if (*quote && *from == *quote) {
		*quote = '\0';
	} else if (!*quote && (*from == '"' || *from == '\'')) {
		*quote = *from;
	} else if (*from == '\\' && *quote != '\'' && from[1] &&
		   (!*quote || from[1] == '"' || from[1] == '\\')) {
		*(*to)++ = *++from;
	} else {
		*(*to)++ = *from;
	}
	return from + 1;
}

/* Whether a shell would continue the command on the next line. */
static bool goes_on(const char *from, char quote)
{
	return *from == '\\' && quote != '\'' && (!from[1] || from[1] == '\n');
}

/*
 * Divide a line into words, in place, as a shell does: '...', "..." and \ quote, # begins
 * a comment.
 * Return: NULL, or what is wrong
 */
static const char *split(char *line, struct words *words)
{
	char *from = line, *to = line, quote = '\0';
	bool more;

	words->nr = 0;
	for (;;) {
		while (isspace((unsigned char)*from))
			from++;
		if (!*from || *from == '#')
			break;
		if (words->nr == WORDS_MAX)
			return "too many words";
		words->word[words->nr++] = to;
		while (*from && (quote || !isspace((unsigned char)*from))) {
			if (goes_on(from, quote))
				return "a \\ at its end: a command is one line";
			from = take_char(from, &to, &quote);
		}
		if (quote)
			return "an unterminated quotation";
		/* The terminating zero may overwrite the blank. */
		more = *from;
		*to++ = '\0';
		from += more;
	}
	words->word[words->nr] = NULL;
	return NULL;
}

/*
 * The child.  Later lines are not input of the command, and its exit() must not move the file
 * offset that it shares with the shell.
 */
static void __attribute__((noreturn))
run_child(const struct shell *shell, const struct words *words)
{
	char *argv[WORDS_MAX + 2] = { (char *)"kvtree" };
	int null;

	signal(SIGINT, SIG_DFL);
	if (!shell->interactive) {
		__fpurge(shell->in);
		null = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (null < 0 || dup2(null, fileno(shell->in)) < 0)
			die("cannot open /dev/null: %m");
	}
	/* The command's options, not the shell's. */
	tool.store_given = false;
	memcpy(argv + 1, words->word, ((size_t)words->nr + 1) * sizeof(*argv));
	_exit(run_arguments(words->nr + 1, argv));
}

static int run_command(const struct shell *shell, const struct words *words)
{
	int state;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("cannot start a process: %m");
	if (!pid)
		run_child(shell, words);
	while (waitpid(pid, &state, 0) < 0)
		if (errno != EINTR)
			die("cannot wait for a process: %m");
	return WIFEXITED(state) ? WEXITSTATUS(state) : STATUS_ERROR;
}

/* "use STORE": select the store for later commands. */
static int use(const struct words *words)
{
	static char *name;

	if (words->nr > 2) {
		warn("use takes one NAME");
		return STATUS_USAGE;
	}
	free(name);
	name = words->nr == 2 ? strdup(words->word[1]) : NULL;
	if (words->nr == 2 && !name)
		die("out of memory");
	tool.store = name;
	return STATUS_OK;
}

/*
 * Run a line.
 * Return: the exit status, or -1 if it ends the shell
 */
static int run_line(const struct shell *shell, char *line)
{
	struct words words;
	const char *wrong = split(line, &words);

	if (wrong) {
		warn("%s", wrong);
		return STATUS_USAGE;
	}
	if (!words.nr)
		return STATUS_OK;
	if (!strcmp(words.word[0], "exit") || !strcmp(words.word[0], "quit"))
		return -1;
	if (!strcmp(words.word[0], "use"))
		return use(&words);
	return run_command(shell, &words);
}

#ifdef HAVE_LIBEDIT

static const char *const own_commands[] = { "use", "exit", "quit", "help" };

/* Whether a group was already offered for an earlier command. */
static bool offered(size_t at)
{
	const char *name = command_name(at);
	size_t len = strcspn(name, " ");

	return at && name[len] && !strncmp(command_name(at - 1), name, len + 1);
}

/* Complete the first or second word of a command; @line is the text before the word. */
static char *next_command(const char *line, size_t len, const char *text, size_t *at)
{
	const char *name, *word;

	for (; (name = command_name(*at)); ++*at) {
		word = name;
		if (!len && offered(*at))
			continue;
		if (len) {
			if (strncmp(name, line, len) || name[len] != ' ')
				continue;
			word = name + len + 1;
		}
		if (!strncmp(word, text, strlen(text))) {
			++*at;
			return strndup(word, strcspn(word, " "));
		}
	}
	if (len)
		return NULL;
	while ((word = *at - command_count() < ARRAY_SIZE(own_commands) ?
		own_commands[*at - command_count()] : NULL)) {
		++*at;
		if (!strncmp(word, text, strlen(text)))
			return strdup(word);
	}
	return NULL;
}

static char *next_store(const char *text, struct kvtree_store_info *si)
{
	struct kvtree *kv;
	char *found = NULL;

	if (kvtree_open(NULL, KVTREE_OPEN_READ, &kv))
		return NULL;
	while (!found && !kvtree_store_next(kv, si, sizeof(*si)))
		if (!strncmp(si->name, text, strlen(text)))
			found = strdup(si->name);
	kvtree_close(kv);
	return found;
}

/* The text before the word at the cursor, without blanks at either end. */
static const char *before_word(int start, size_t *len)
{
	const char *line = rl_line_buffer;
	size_t end = (size_t)start;

	while (end && line[end - 1] == ' ')
		end--;
	while (end && *line == ' ') {
		line++;
		end--;
	}
	*len = end;
	return line;
}

static int word_start;

static char *next_word(const char *text, int state)
{
	static const char *const before_store[] = {
		"use", "-s", "--store", "store set", "store destroy", "store attach",
		"store detach", "store sync", "store checkpoint",
	};
	static struct kvtree_store_info si;
	static size_t at;
	const char *line;
	size_t i, len, n;

	if (!state) {
		si = (struct kvtree_store_info){ 0 };
		at = 0;
	}
	line = before_word(word_start, &len);
	if (len > 4 && !memcmp(line, "help ", 5)) {
		line += 5;
		len -= 5;
	} else if (len == 4 && !memcmp(line, "help", 4)) {
		len = 0;
	}
	for (i = 0; i < ARRAY_SIZE(before_store); i++) {
		n = strlen(before_store[i]);
		if (len >= n && !memcmp(line + len - n, before_store[i], n) &&
		    (len == n || line[len - n - 1] == ' '))
			return next_store(text, &si);
	}
	return next_command(line, len, text, &at);
}

static char **complete(const char *text, int start, int end)
{
	(void)end;
	word_start = start;
	return rl_completion_matches(text, next_word);
}

static char *history_path(void)
{
	const char *home = getenv("HOME");
	char *path;

	if (!home || asprintf(&path, "%s/" HISTORY_FILE, home) < 0)
		return NULL;
	return path;
}

/* A regular file of the user, or a new one.  A link to /dev/null must stay one. */
static bool may_be_history(const char *path, bool *empty)
{
	struct stat st;

	if (lstat(path, &st)) {
		*empty = true;
		return errno == ENOENT;
	}
	*empty = !st.st_size;
	return S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

/* The file to save the history to; NULL if it could not be read, and must not be overwritten. */
static char *history;

static void edit_begin(void)
{
	char *path = history_path();
	bool empty;

	rl_readline_name = (char *)"kvtree";
	rl_attempted_completion_function = complete;
	using_history();
	stifle_history(1000);
	if (path && may_be_history(path, &empty) && (empty || !read_history(path)))
		history = path;
	else
		free(path);
}

/*
 * The history contains keys and values, so only its owner may read it.  It replaces the old
 * file when it is complete.
 */
static void edit_end(void)
{
	char *new;
	bool empty;
	int fd;

	if (!history || asprintf(&new, "%s.XXXXXX", history) < 0)
		return;
	fd = mkostemp(new, O_CLOEXEC);
	if (fd >= 0 && (write_history(new) || !may_be_history(history, &empty) ||
			rename(new, history)))
		unlink(new);
	if (fd >= 0)
		close(fd);
	free(new);
	free(history);
}

static char *edit_line(const char *prompt)
{
	char *line = readline(prompt);

	if (line && *line)
		add_history(line);
	return line;
}

#else

static void edit_begin(void)
{
}

static void edit_end(void)
{
}

static char *edit_line(const char *prompt)
{
	char *line = NULL;
	size_t room = 0;

	fputs(prompt, stdout);
	fflush(stdout);
	if (getline(&line, &room, stdin) >= 0)
		return line;
	free(line);
	return NULL;
}

#endif

static int run_terminal(struct shell *shell)
{
	char prompt[KVTREE_NAME_MAX + 16], *line;
	int status;

	/* SIGINT is for the running command. */
	signal(SIGINT, SIG_IGN);
	edit_begin();
	do {
		snprintf(prompt, sizeof(prompt), "kvtree%s%.*s> ", tool.store ? ":" : "",
			 KVTREE_NAME_MAX, tool.store ? tool.store : "");
		line = edit_line(prompt);
		status = line ? run_line(shell, line) : -1;
		free(line);
	} while (status >= 0);
	edit_end();
	return STATUS_OK;
}

static int run_file(struct shell *shell)
{
	int status = STATUS_OK, one = STATUS_OK;
	char *line = NULL;
	size_t room = 0;
	ssize_t len;

	while ((one <= STATUS_NOT || shell->keep_going) &&
	       (len = getline(&line, &room, shell->in)) >= 0) {
		shell->line_nr++;
		if (strlen(line) == (size_t)len) {
			one = run_line(shell, line);
		} else {
			warn("a byte 0: use --escape to write it");
			one = STATUS_USAGE;
		}
		if (one < 0)
			break;
		if (one > STATUS_NOT)
			warn("shell: line %lu failed", shell->line_nr);
		if (one > status)
			status = one;
	}
	if (ferror(shell->in))
		die("cannot read %s: %m", shell->path ? shell->path : "standard input");
	free(line);
	return status;
}

static error_t parse_shell(int key, char *arg, struct argp_state *state)
{
	struct shell *shell = state->input;

	switch (key) {
	case OPT_KEEP_GOING:
		shell->keep_going = true;
		return 0;
	case ARGP_KEY_ARG:
		if (shell->path)
			argp_error(state, "too many arguments: shell takes one FILE");
		shell->path = arg;
		return 0;
	case ARGP_KEY_END:
		if (shell->path && !strcmp(shell->path, "-"))
			shell->path = NULL;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "keep-going", .key = OPT_KEEP_GOING,
	  .doc = "Continue after a line that failed" },
	{ 0 }
};

int cmd_shell(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_shell,
		.args_doc = "[FILE]",
		.doc = "Run commands from a terminal, a file or standard input.\n"
		       "\vEach line is a command without the word \"kvtree\", quoted as in a shell; #\n"
		       "begins a comment. \"use STORE\" selects the store for later lines, \"exit\" ends\n"
		       "the shell. Options of this command apply to all lines.\n"
		       "On a terminal there are editing, completion and a history, which is kept in\n"
		       "~/" HISTORY_FILE ".\n"
		       "A file stops at the first line with wrong usage or an error, and the exit\n"
		       "status is the highest of its lines.",
		.children = common_options,
	};
	struct shell shell = { .in = stdin };
	int status;

	parse(&argp, argc, argv, &shell);
	if (shell.path) {
		shell.in = fopen(shell.path, "re");
		if (!shell.in)
			die("cannot open %s: %m", shell.path);
	}
	shell.interactive = !shell.path && isatty(STDIN_FILENO);
	status = shell.interactive ? run_terminal(&shell) : run_file(&shell);
	if (shell.path)
		fclose(shell.in);
	return status;
}
