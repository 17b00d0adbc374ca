// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of the rules.  Each one puts or removes one record, and then changes the version:
 * the program decides about every packet by the rules before or after such a change.
 *
 * Changing a rule's first port takes two changes: put the new record, then remove the old one.
 * In between both exist, and where they overlap the one with the greater first port wins, since
 * the program looks for the last record that is not greater than the port.  So in between, the
 * action for each port is the one before or the one after.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tool.h"

#define LOCK	"/run/kvtree-firewall.lock"

struct stores {
	struct kvtree *rules;
	struct kvtree *counts;
};

/* Take a lock: what was checked before a change must hold when it is made. */
static void begin(struct stores *stores)
{
	int fd = open(LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		die("cannot open " LOCK ": %m");
	while (flock(fd, LOCK_EX))
		if (errno != EINTR)
			die("cannot lock " LOCK ": %m");
	stores->rules = store_make(RULES_STORE, 0);
	stores->counts = store_make(COUNTS_STORE, 0);
}

static void end(struct stores *stores)
{
	kvtree_close(stores->rules);
	kvtree_close(stores->counts);
}

/* Must follow each change immediately. */
static void new_version(const struct stores *stores)
{
	int err = kvtree_put(stores->rules, kvtree_str(FW_VERSION), kvtree_str(""), 0, NULL);

	if (err)
		die("the rules are changed, but current packets may not see all changes: %s",
		    kvtree_strerror(err));
}

/* A rule has one counter for each CPU. */
static void forget_counts(const struct stores *stores, const struct rule *rule)
{
	struct kvtree_cursor_opts opts = {
		.size = sizeof(opts), .flags = KVTREE_CURSOR_KEYS_ONLY,
	};
	struct kvtree_cursor *c = NULL;
	union fw_key key;
	const void *k;
	size_t len;
	int err;

	opts.prefix_len = rule_key(rule, &key);
	opts.prefix = &key;
	err = kvtree_cursor_open(stores->counts, &opts, &c);
	while (!err && !(err = kvtree_cursor_next(c))) {
		k = kvtree_cursor_key(c, &len);
		kvtree_del(stores->counts, kvtree_slice(k, len), 0, NULL);
	}
	kvtree_cursor_close(c);
}

/*
 * Find a rule of the same prefix with overlapping ports, other than @except.  Only the rule with
 * the greatest first port up to our last port can overlap: rules before it end before it begins.
 */
static bool find_overlap(const struct stores *stores, const struct rule *rule,
			 const struct rule *except, struct rule *found)
{
	struct kvtree_cursor_opts opts = {
		.size = sizeof(opts), .flags = KVTREE_CURSOR_REVERSE, .max_records = 2,
	};
	struct rule at_last = *rule;
	struct kvtree_cursor *c = NULL;
	size_t key_len, len;
	const void *key, *val;
	union fw_key last;
	bool hit = false;
	int err;

	at_last.first = rule->last;
	key_len = rule_key(&at_last, &last);
	opts.prefix = &last;
	opts.prefix_len = key_len - sizeof(last.v4.first);
	err = kvtree_cursor_open(stores->rules, &opts, &c);
	if (!err)
		err = kvtree_cursor_seek(c, kvtree_slice(&last, key_len));
	while (!err) {
		key = kvtree_cursor_key(c, &key_len);
		val = kvtree_cursor_value(c, &len);
		if (!rule_read(key, key_len, val, len, found))
			die("the store '%s' has a record that is not a rule", RULES_STORE);
		hit = found->last >= rule->first;
		if (!except || found->first != except->first)
			break;
		hit = false;
		err = kvtree_cursor_next(c);
	}
	if (err && err != -ENOENT)
		die("cannot read the rules: %s", kvtree_strerror(err));
	kvtree_cursor_close(c);
	return hit;
}

static void put(const struct stores *stores, const struct rule *rule)
{
	struct fw_rule value = rule_value(rule);
	union fw_key key;
	size_t len = rule_key(rule, &key);
	int err;

	err = kvtree_put(stores->rules, kvtree_slice(&key, len),
			 kvtree_slice(&value, sizeof(value)), 0, NULL);
	if (err)
		die("cannot store the rule: %s", kvtree_strerror(err));
	new_version(stores);
}

/* Find the rule with exactly these ports; its action is set. */
static bool find_rule(const struct stores *stores, struct rule *rule)
{
	struct fw_rule value;
	union fw_key key;
	size_t key_len = rule_key(rule, &key), len;
	int err;

	err = kvtree_get_into(stores->rules, kvtree_slice(&key, key_len), &value, sizeof(value),
			      &len, NULL);
	if (err && err != -ENOENT)
		die("cannot read the rule: %s", kvtree_strerror(err));
	if (err || value.last != rule_value(rule).last)
		return false;
	rule->action = value.action;
	return true;
}

static void remove_rule(const struct stores *stores, const struct rule *rule)
{
	union fw_key key;
	size_t len = rule_key(rule, &key);
	int err;

	err = kvtree_del(stores->rules, kvtree_slice(&key, len), 0, NULL);
	if (err)
		die("cannot remove the rule: %s", kvtree_strerror(err));
	new_version(stores);
	forget_counts(stores, rule);
}

static int add(const struct stores *stores, struct rule *rule)
{
	char text[RULE_TEXT], other[RULE_TEXT];
	struct rule found;

	if (find_overlap(stores, rule, NULL, &found)) {
		if (found.first == rule->first && found.last == rule->last &&
		    found.action == rule->action)
			return STATUS_OK;
		warn("%s: overlaps with %s", rule_text(rule, text), rule_text(&found, other));
		return STATUS_NOT;
	}
	forget_counts(stores, rule);
	put(stores, rule);
	return STATUS_OK;
}

static int del(const struct stores *stores, struct rule *rule)
{
	char text[RULE_TEXT];

	if (!find_rule(stores, rule)) {
		warn("%s: no such rule", strchr(rule_text(rule, text), ' ') + 1);
		return STATUS_NOT;
	}
	remove_rule(stores, rule);
	return STATUS_OK;
}

struct words {
	int nr;
	char *word[6];
};

/* The argument for the words of a line: -1: none, all of them; otherwise the one that is "-". */
static int place_of_line(const struct words *words)
{
	int i = words->nr;

	while (i && strcmp(words->word[i - 1], "-"))
		i--;
	/* Ports are not read from input. */
	return i > 3 || (i == 1 && words->nr > 1) ? -1 : i - 1;
}

/* Parse a line of standard input: a whole rule, or the word for @at. */
static const char *put_line(struct words *words, int at, char *line)
{
	struct words read;

	read.nr = split_words(line, read.word, ARRAY_SIZE(read.word));
	if (words->nr > 1 && read.nr > 1)
		return "a line has one prefix";
	if (words->nr > 1)
		words->word[at] = read.word[0];
	else
		*words = read;
	return NULL;
}

/* Call a function for each rule, or prefix, of standard input. */
static int each_line(const struct stores *stores, const struct words *given, int at,
		     int (*one)(const struct stores *stores, int nr, char **words,
				const char **wrong))
{
	int status = STATUS_OK, worst = STATUS_OK;
	const char *wrong = NULL;
	unsigned int number = 0;
	struct words words;
	char *line = NULL;
	size_t size = 0;

	while (!wrong && getline(&line, &size, stdin) > 0) {
		number++;
		words = *given;
		line[strcspn(line, "#;")] = 0;
		if (!line[strspn(line, " \t\r\n")])
			continue;
		wrong = put_line(&words, at, line);
		if (!wrong)
			status = one(stores, words.nr, words.word, &wrong);
		if (status > worst)
			worst = status;
	}
	if (wrong)
		warn("line %u: %s", number, wrong);
	free(line);
	return wrong ? STATUS_USAGE : worst;
}

/* Call it for each protocol, if the rule is for any. */
static int each_protocol(const struct stores *stores, struct rule *rule,
			 int (*one)(const struct stores *stores, struct rule *rule))
{
	int status, worst = STATUS_OK;
	uint8_t i;

	if (rule->protocol < FW_PROTOCOLS)
		return one(stores, rule);
	for (i = 0; i < FW_PROTOCOLS; i++) {
		rule->protocol = i;
		status = one(stores, rule);
		if (status > worst)
			worst = status;
	}
	return worst;
}

static int add_words(const struct stores *stores, int nr, char **words, const char **wrong)
{
	struct rule rule;

	*wrong = parse_rule(nr, words, &rule);
	return *wrong ? STATUS_USAGE : each_protocol(stores, &rule, add);
}

/* The action may be omitted, so that del accepts the output of list. */
static int del_words(const struct stores *stores, int nr, char **words, const char **wrong)
{
	struct rule rule;
	uint8_t action;

	if (nr > 2 && !parse_action(words[0], &action)) {
		nr--;
		words++;
	}
	*wrong = nr < 2 || nr > 3 ? "a rule to remove is PROTOCOL PREFIX [PORTS]" :
		 parse_what(words[0], words[1], nr > 2 ? words[2] : NULL, &rule);
	return *wrong ? STATUS_USAGE : each_protocol(stores, &rule, del);
}

static error_t parse_words(int key, char *arg, struct argp_state *state)
{
	struct words *words = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (words->nr == ARRAY_SIZE(words->word))
			argp_error(state, "too many arguments");
		words->word[words->nr++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!words->nr)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int words_command(int argc, char **argv, const struct argp *argp,
			 int (*one)(const struct stores *stores, int nr, char **words,
				    const char **wrong))
{
	struct words words = { 0 };
	const char *wrong = NULL;
	struct stores stores;
	int status, at;

	argp_parse(argp, argc, argv, 0, NULL, &words);
	at = place_of_line(&words);
	begin(&stores);
	if (at >= 0)
		status = each_line(&stores, &words, at, one);
	else
		status = one(&stores, words.nr, words.word, &wrong);
	if (wrong)
		warn("%s", wrong);
	end(&stores);
	return status;
}

int cmd_add(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_words,
		.args_doc = "ACTION PROTOCOL PREFIX [PORTS]\nACTION PROTOCOL - [PORTS]\n-",
		.doc = "Add a rule; or one for each prefix of standard input, one a line; or the\n"
		       "rules of standard input.\n"
		       "\vACTION is pass or drop. PROTOCOL is tcp, udp, icmp (ICMPv6 with an IPv6\n"
		       "prefix), ip, for all other protocols, or any, for a rule of each. PREFIX is\n"
		       "of the sender. Input lines may have comments after # or ;, as in lists\n"
		       "of FireHOL, Spamhaus and others.\n"
		       "PORTS are destination ports: a number, FIRST-LAST, or any;\n"
		       "types for icmp, numbers of protocols for ip. Rules of one prefix and\n"
		       "protocol must not overlap.",
	};

	return words_command(argc, argv, &argp, add_words);
}

int cmd_del(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_words,
		.args_doc = "PROTOCOL PREFIX [PORTS]\nPROTOCOL - [PORTS]\n-",
		.doc = "Remove a rule; or one for each prefix of standard input, one a line; or\n"
		       "the rules of standard input. The ports are those of the rule.",
	};

	return words_command(argc, argv, &argp, del_words);
}

static int change_words(const struct stores *stores, int nr, char **words,
			const char **wrong)
{
	struct rule old, new, found;
	char text[RULE_TEXT], other[RULE_TEXT];

	if (nr != 5) {
		*wrong = "to change a rule takes PROTOCOL PREFIX PORTS NEW-ACTION NEW-PORTS";
		return STATUS_USAGE;
	}
	*wrong = parse_what(words[0], words[1], words[2], &old);
	if (!*wrong && old.protocol == FW_PROTOCOLS)
		*wrong = "one rule is changed at a time: of tcp, udp, icmp or ip";
	new = old;
	if (!*wrong)
		*wrong = parse_action(words[3], &new.action);
	if (!*wrong)
		*wrong = parse_ports(words[4], &new);
	if (*wrong)
		return STATUS_USAGE;
	old.action = new.action;
	if (!find_rule(stores, &old)) {
		warn("%s: no such rule", strchr(rule_text(&old, text), ' ') + 1);
		return STATUS_NOT;
	}
	if (find_overlap(stores, &new, &old, &found)) {
		warn("%s: overlaps with %s", rule_text(&new, text), rule_text(&found, other));
		return STATUS_NOT;
	}
	put(stores, &new);
	if (new.first != old.first)
		remove_rule(stores, &old);
	return STATUS_OK;
}

int cmd_change(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_words,
		.args_doc = "PROTOCOL PREFIX PORTS NEW-ACTION NEW-PORTS\n-",
		.doc = "Change a rule's action or ports, or those of standard input.\n"
		       "\vFor every packet either the old or the new rule applies. A rule\n"
		       "keeps its counters as long as it keeps its first port.",
	};

	return words_command(argc, argv, &argp, change_words);
}
