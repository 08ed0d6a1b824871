/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of etcd: each parser sees each input. */
#include <string.h>

#include "meta/etcd_json.h"
#include "tests/fuzz/fuzz.h"

static void check_record(const struct ln_meta_record *r)
{
	size_t n = strlen(r->key);

	fuzz_require(n > 0 && n <= LN_META_KEY_MAX, "a key within limits");
	fuzz_require(r->value_len <= LN_META_VALUE_MAX &&
		     !r->value[r->value_len], "a value within limits");
}

static void read_range(const char *p, size_t n)
{
	struct ln_meta_etcd_range r;

	if (ln_meta_etcd_parse_range(p, n, &r))
		return;
	for (size_t i = 0; i < r.list.count; i++)
		check_record(&r.list.records[i]);
	ln_meta_list_fini(&r.list);
}

static void read_news(const char *p, size_t n)
{
	struct ln_meta_etcd_news news;

	if (ln_meta_etcd_parse_news(p, n, &news))
		return;
	for (size_t i = 0; i < news.count; i++)
		check_record(&news.events[i].record);
	ln_meta_etcd_news_fini(&news);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *p = (const char *)data;
	struct ln_meta_etcd_change c;
	struct ln_meta_etcd_lease l;
	char why[64];

	read_range(p, bytes);
	read_news(p, bytes);
	(void)ln_meta_etcd_parse_change(p, bytes, &c);
	if (!ln_meta_etcd_parse_lease(p, bytes, &l))
		fuzz_require(l.id > 0 && l.id <= INT64_MAX, "a lease");
	fuzz_require(ln_meta_etcd_parse_error(p, bytes, why, sizeof(why)) < 0,
		     "an error is an error");
	fuzz_require(strlen(why) < sizeof(why), "a sentence");
	return 0;
}

#define HEAD "\"header\":{\"cluster_id\":\"3\",\"revision\":\"7\"," \
	     "\"raft_term\":\"2\"}"
#define KV "{\"key\":\"YQ==\",\"create_revision\":\"2\"," \
	   "\"mod_revision\":\"2\",\"version\":\"1\",\"value\":\"YWI=\"}"

const uint8_t *fuzz_seed(unsigned i, size_t *bytes)
{
	static const char *const seeds[] = {
		"{" HEAD ",\"kvs\":[" KV "," KV "],\"more\":true,"
		"\"count\":\"2\"}",
		"{" HEAD ",\"succeeded\":true,\"responses\":[{\"response_put\""
		":{\"header\":{\"revision\":\"3\"}}}]}",
		"{" HEAD ",\"responses\":[{\"response_range\":{\"kvs\":[" KV
		"],\"count\":\"1\"}}]}",
		"{" HEAD ",\"deleted\":\"1\"}",
		"{" HEAD ",\"ID\":\"2324035734674928649\",\"TTL\":\"2\"}",
		"{\"result\":{" HEAD ",\"ID\":\"77\"}}",
		"{\"result\":{" HEAD ",\"created\":true}}",
		"{\"result\":{" HEAD ",\"events\":[{\"kv\":" KV "},"
		"{\"type\":\"DELETE\",\"kv\":{\"key\":\"YQ==\","
		"\"mod_revision\":\"8\"}}]}}",
		"{\"result\":{" HEAD ",\"canceled\":true,"
		"\"compact_revision\":\"3\"}}",
		"{\"error\":\"etcdserver: requested lease not found\","
		"\"message\":\"etcdserver\",\"code\":5}",
		"{\"error\":{\"grpc_code\":14,\"http_code\":503,"
		"\"message\":\"unavailable\"}}",
	};

	if (i >= LN_ARRAY_SIZE(seeds))
		return NULL;
	*bytes = strlen(seeds[i]);
	return (const uint8_t *)seeds[i];
}
