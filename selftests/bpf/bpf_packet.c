// SPDX-License-Identifier: GPL-2.0
/* A tc program that copies a value into a packet must not change clones of the packet. */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/if_packet.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib.h"
#include "packet.h"
#include "bpf_packet.skel.h"

#define SENT	"question"
#define ANSWER	"answered"

/* A socket that listens on a port of this host. */
static int receiver(struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*addr = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	KVT_CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)addr, len));
	KVT_CHECK(!getsockname(fd, (struct sockaddr *)addr, &len));
	return fd;
}

/* Sees each packet that comes in, before programs do. */
static int tap(int ifindex)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = ifindex,
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	KVT_CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	return fd;
}

static int loopback(void)
{
	struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	KVT_CHECK(fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &req));
	close(fd);
	return if_nametoindex(req.ifr_name);
}

/* Receive data, or nothing for ten seconds. */
static ssize_t wait_for(int fd, void *buf, size_t len, struct sockaddr_ll *from)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	socklen_t from_len = from ? sizeof(*from) : 0;

	if (poll(&poll_fd, 1, 10000) != 1)
		return -1;
	return recvfrom(fd, buf, len, 0, (struct sockaddr *)from, from ? &from_len : NULL);
}

/* The payload of a datagram to this port that the tap has seen on its way in. */
static bool tapped(int fd, __be16 port, char *payload)
{
	struct sockaddr_ll from;
	struct datagram d;
	ssize_t len;

	while ((len = wait_for(fd, &d, sizeof(d), &from)) >= 0) {
		if (len < (ssize_t)sizeof(d) || from.sll_pkttype != PACKET_HOST ||
		    d.ip.protocol != IPPROTO_UDP || d.udp.dest != port)
			continue;
		memcpy(payload, d.payload, sizeof(d.payload));
		return true;
	}
	return false;
}

TEST(a_clone_of_a_packet_keeps_its_bytes)
{
	char got[PAYLOAD], seen[PAYLOAD];
	struct bpf_packet *skel;
	struct kvt_bpf_env env;
	struct sockaddr_in to;
	int in, all, lo;

	kvt_bpf_env_init(&env, "bpf-packet", 0);
	ASSERT_EQ(0, kvt_put(env.env.fd, STR("answer"), STR(ANSWER), NULL));
	skel = bpf_packet__open_and_load();
	ASSERT_NE(NULL, skel) {
		TH_LOG("%s", kvt_bpf_log());
	}
	kvt_bpf_env_bind(&env, skel->maps.rodata_store, KVTREE_OPEN_READ);
	/* A network namespace of its own. */
	ASSERT_EQ(0, unshare(CLONE_NEWNET));
	lo = loopback();
	skel->links.answer = bpf_program__attach_tcx(skel->progs.answer, lo, NULL);
	ASSERT_NE(NULL, skel->links.answer) {
		TH_LOG("%s", kvt_bpf_log());
	}
	all = tap(lo);
	in = receiver(&to);
	skel->bss->packet.port = to.sin_port;
	ASSERT_EQ(PAYLOAD, sendto(in, SENT, PAYLOAD, 0, (struct sockaddr *)&to, sizeof(to)));
	ASSERT_EQ(PAYLOAD, wait_for(in, got, sizeof(got), NULL));
	EXPECT_EQ(1, skel->bss->packet.answers);
	EXPECT_EQ(PAYLOAD, skel->bss->packet.ret);
	EXPECT_EQ(0, memcmp(got, ANSWER, PAYLOAD));
	ASSERT_TRUE(tapped(all, to.sin_port, seen));
	EXPECT_EQ(0, memcmp(seen, SENT, PAYLOAD));
	close(in);
	close(all);
	bpf_packet__destroy(skel);
	kvt_bpf_env_exit(&env);
}

TEST_HARNESS_MAIN
