// SPDX-License-Identifier: GPL-2.0
/*
 * std::map with a lock.  Waiting threads spin, so that the measured CPU time
 * includes the waiting.
 */
#include <cstring>
#include <map>
#include <pthread.h>
#include <string>
#include <string_view>

extern "C" {
#include "memory.h"
}

namespace {

pthread_spinlock_t lock;

struct guard {
	guard() { pthread_spin_lock(&lock); }
	~guard() { pthread_spin_unlock(&lock); }
};

struct wide {
	uint32_t column[BENCH_COLS];
};

void take(uint64_t *to, const union bench_value *from) { *to = from->number; }
void take(wide *to, const union bench_value *from) { memcpy(to, from->column, sizeof(*to)); }
void give(uint64_t from, union bench_value *to) { to->number = from; }
void give(const wide &from, union bench_value *to) { memcpy(to->column, &from, sizeof(from)); }
uint64_t first(uint64_t from) { return from; }
uint64_t first(const wide &from) { return from.column[0]; }
bool set_column(uint64_t &, unsigned int, uint32_t) { return false; }

bool set_column(wide &value, unsigned int column, uint32_t to)
{
	value.column[column] = to;
	return true;
}

struct number_key {
	using type = uint64_t;
	using less = std::less<uint64_t>;

	static uint64_t of(struct bench_key_ref key) { return bench_key_number(key); }

	static uint32_t copy(uint64_t key, uint8_t *to)
	{
		key = __builtin_bswap64(key);
		memcpy(to, &key, sizeof(key));
		return sizeof(key);
	}
};

struct bytes_key {
	using type = std::string;
	using less = std::less<>;

	static std::string_view of(struct bench_key_ref key)
	{
		return { reinterpret_cast<const char *>(key.data), key.len };
	}

	static uint32_t copy(const std::string &key, uint8_t *to)
	{
		memcpy(to, key.data(), key.size());
		return key.size();
	}
};

struct any_map {
	virtual ~any_map() = default;
	virtual void put(struct bench_key_ref key, const union bench_value *value) = 0;
	virtual bool get(struct bench_key_ref key, union bench_value *value) = 0;
	virtual unsigned int scan(struct bench_key_ref key, unsigned int nr,
				  struct bench_scan *out) = 0;
	virtual bool remove(struct bench_key_ref key) = 0;
	virtual bool put_column(struct bench_key_ref key, unsigned int column, uint32_t value) = 0;
	virtual void clear() = 0;
};

template <class Key, class Value> struct a_map final : any_map {
	std::map<typename Key::type, Value, typename Key::less> map;

	void put(struct bench_key_ref key, const union bench_value *value) override
	{
		typename Key::type k(Key::of(key));
		Value v;

		take(&v, value);
		guard g;
		map.insert_or_assign(std::move(k), v);
	}

	bool get(struct bench_key_ref key, union bench_value *value) override
	{
		guard g;
		auto it = map.find(Key::of(key));

		if (it == map.end())
			return false;
		give(it->second, value);
		return true;
	}

	unsigned int scan(struct bench_key_ref key, unsigned int nr,
			  struct bench_scan *out) override
	{
		unsigned int i = 0;
		guard g;

		for (auto it = map.lower_bound(Key::of(key)); i < nr && it != map.end(); ++it) {
			out->len[i] = Key::copy(it->first, out->key[i]);
			out->value[i++] = first(it->second);
		}
		return i;
	}

	bool remove(struct bench_key_ref key) override
	{
		guard g;
		auto it = map.find(Key::of(key));

		if (it == map.end())
			return false;
		map.erase(it);
		return true;
	}

	bool put_column(struct bench_key_ref key, unsigned int column, uint32_t value) override
	{
		guard g;
		auto it = map.find(Key::of(key));

		return it != map.end() && set_column(it->second, column, value);
	}

	void clear() override { map.clear(); }
};

any_map *map;

void sm_init(const struct bench_config *config)
{
	memory_pages(config->small_pages);
	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	if (config->fixed)
		map = new a_map<number_key, uint64_t>;
	else if (config->wide)
		map = new a_map<bytes_key, wide>;
	else
		map = new a_map<bytes_key, uint64_t>;
}

void sm_clear() { map->clear(); }

void sm_put(struct bench_key_ref key, const union bench_value *value)
{
	map->put(key, value);
}

bool sm_get(struct bench_key_ref key, union bench_value *value)
{
	return map->get(key, value);
}

unsigned int sm_scan(struct bench_key_ref key, unsigned int nr, struct bench_scan *out)
{
	return map->scan(key, nr, out);
}

bool sm_remove(struct bench_key_ref key) { return map->remove(key); }

bool sm_put_column(struct bench_key_ref key, unsigned int column, uint32_t value)
{
	return map->put_column(key, column, value);
}

} /* namespace */

extern "C" {
const struct subject subject_stdmap = {
	.name = "stdmap", .fixed_only = false, .long_values = false, .one_writer = false,
	.init = sm_init,
	.enter = nullptr, .begin = nullptr, .end = nullptr, .pause = nullptr,
	.clear = sm_clear, .publish = nullptr, .memory = memory_of_malloc, .swaps = nullptr,
	.put = sm_put, .get = sm_get, .get_batch = nullptr, .scan = sm_scan,
	.remove = sm_remove, .put_column = sm_put_column, .chase = nullptr,
};
}
