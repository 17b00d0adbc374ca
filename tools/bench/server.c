// SPDX-License-Identifier: GPL-2.0
/*
 * Servers that are started for this run and stopped at its end.
 *
 * With several CPUs, the client has the first one to itself, and the servers share the others,
 * unless the command line says otherwise.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define SERVERS_MAX	64

enum place server_place;
char work_dir[] = "/tmp/kvtree-bench.XXXXXX";

static pid_t servers[SERVERS_MAX];
static unsigned int nr_servers;
static cpu_set_t all_cpus;

/**
 * server_stop() - stop a server
 * @id: of server_start()
 */
void server_stop(unsigned int id)
{
	if (!servers[id])
		return;
	kill(servers[id], SIGKILL);
	waitpid(servers[id], NULL, 0);
	servers[id] = 0;
}

static void stop_servers(void)
{
	char cmd[sizeof(work_dir) + 16];

	while (nr_servers--)
		server_stop(nr_servers);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", work_dir);
	if (system(cmd))
		note("%s could not be removed", work_dir);
}

/**
 * servers_init() - create the folder for sockets
 */
void servers_init(void)
{
	sched_getaffinity(0, sizeof(all_cpus), &all_cpus);
	if (!mkdtemp(work_dir))
		die("%s: %s", work_dir, strerror(errno));
	atexit(stop_servers);
}

/* Run on the first CPU only, or on all others. */
static void pin(bool first)
{
	cpu_set_t set = all_cpus;
	int cpu = 0;

	if (CPU_COUNT(&all_cpus) < 2)
		return;
	while (!CPU_ISSET(cpu, &all_cpus))
		cpu++;
	if (first)
		CPU_ZERO(&set);
	CPU_CLR(cpu, &set);
	if (first)
		CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity: %s", strerror(errno));
}

/**
 * pin_client() - keep this process on its CPU
 */
void pin_client(void)
{
	if (server_place != PLACE_FREE)
		pin(true);
}

/* The output goes to standard error, to show the reason for a failure. */
static void server_exec(const char *program, char *const argv[])
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (server_place != PLACE_FREE)
		pin(server_place == PLACE_SAME);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execvp(program, argv);
	note("%s: %s", program, strerror(errno));
	_exit(127);
}

/**
 * server_start() - start a server
 * @program: its name, found in PATH
 * @argv: its arguments
 *
 * conn_unix() and conn_tcp() wait until it listens.
 *
 * Return: the id for server_stop()
 */
unsigned int server_start(const char *program, char *const argv[])
{
	pid_t pid;

	if (nr_servers == SERVERS_MAX)
		die("too many servers");
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid)
		server_exec(program, argv);
	servers[nr_servers] = pid;
	return nr_servers++;
}

/**
 * server_free_port() - find an unused TCP port of the loopback interface
 *
 * Return: the port
 */
unsigned int server_free_port(void)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, len) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len))
		die("no TCP port on the loopback interface: %s", strerror(errno));
	close(fd);
	return ntohs(addr.sin_port);
}

/**
 * server_version() - ask a program for its version
 * @program: its name, found in PATH
 * @version: set to the first line of its output
 * @size: bytes at @version
 */
void server_version(const char *program, char *version, size_t size)
{
	char cmd[64];
	FILE *f;

	snprintf(cmd, sizeof(cmd), "%s --version", program);
	f = popen(cmd, "r");
	if (!f || !fgets(version, size, f))
		snprintf(version, size, "%s, unknown version", program);
	version[strcspn(version, "\n")] = 0;
	if (f)
		pclose(f);
}
