// SPDX-License-Identifier: GPL-2.0
/*
 * A program in C++: the header is fit for it, and so is what it is linked with.
 */
#include <kvtree.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	std::fprintf(stderr, "failed: %s\n", what);
	std::exit(1);
}

#define MUST(cond)	must(cond, #cond)

int main()
{
	const std::string key = "link-" + std::string(20, 'x'), val = "value";
	std::vector<char> buf(100);
	kvtree_event event;
	kvtree_ring_opts opts{};
	kvtree_ring *ring;
	kvtree *kv;
	int calls = 0;

	MUST(kvtree_open(nullptr, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE, &kv) == 0);
	opts.size = sizeof(opts);
	opts.depth = 8;
	MUST(kvtree_ring_open(kv, &opts, &ring) == 0);
	MUST(kvtree_ring_put(ring, kvtree_slice(key.data(), key.size()),
			     kvtree_slice(val.data(), val.size()), KVTREE_F_CREATE,
			     kvtree_callback([](kvtree_ring *, const kvtree_event *ev) {
				     MUST(ev->result == 0);
				     ++*static_cast<int *>(ev->data);
			     }, &calls)) == 0);
	MUST(kvtree_ring_wait(ring, nullptr, 0, 1, -1) == 0);
	MUST(calls == 1);
	MUST(kvtree_ring_get(ring, kvtree_slice(key.data(), key.size()), buf.data(), buf.size(),
			     kvtree_as_event(nullptr)) == 0);
	MUST(kvtree_ring_wait(ring, &event, 1, 1, -1) == 1);
	MUST(event.result == static_cast<int>(val.size()));
	MUST(!std::memcmp(buf.data(), val.data(), val.size()));
	kvtree_ring_close(ring);
	MUST(kvtree_del(kv, kvtree_slice(key.data(), key.size()), 0, nullptr) == 0);
	kvtree_close(kv);
	return 0;
}
