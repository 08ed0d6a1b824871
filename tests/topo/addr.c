/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include "tests/harness/unit.h"
#include "topo/topo.h"

static struct sockaddr_storage v4(const char *text)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct sockaddr_storage out = { 0 };

	assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
	memcpy(&out, &a, sizeof(a));
	return out;
}

static struct sockaddr_storage v6(const char *text, unsigned scope)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6,
				  .sin6_scope_id = scope };
	struct sockaddr_storage out = { 0 };

	assert_int_equal(inet_pton(AF_INET6, text, &a.sin6_addr), 1);
	memcpy(&out, &a, sizeof(a));
	return out;
}

static void is(struct sockaddr_storage a, int port, const char *want)
{
	char text[96];

	ln_topo_addr_text(&a, port, text, sizeof(text));
	assert_string_equal(text, want);
}

static void v4_is_plain_with_the_port_behind(void **state)
{
	(void)state;
	is(v4("10.0.0.1"), 0, "10.0.0.1");
	is(v4("10.0.0.1"), 4000, "10.0.0.1:4000");
}

static void v6_is_in_brackets(void **state)
{
	(void)state;
	is(v6("fd00::2", 0), 0, "[fd00::2]");
	is(v6("fd00::2", 0), 65535, "[fd00::2]:65535");
}

static void link_local_names_its_interface(void **state)
{
	char name[IF_NAMESIZE], want[64];

	(void)state;
	assert_non_null(if_indextoname(1, name));
	snprintf(want, sizeof(want), "[fe80::1%%%s]:7", name);
	is(v6("fe80::1", 1), 7, want);
	is(v6("fe80::1", 12345678), 0, "[fe80::1%12345678]");
}

static void a_short_buffer_is_not_overrun(void **state)
{
	struct sockaddr_storage a = v4("10.20.30.40");
	char text[16];

	(void)state;
	memset(text, 'x', sizeof(text));
	ln_topo_addr_text(&a, 99, text, 8);
	assert_string_equal(text, "10.20.3");
	assert_int_equal(text[8], 'x');
}

static void another_family_is_a_question_mark(void **state)
{
	struct sockaddr_storage a = { .ss_family = AF_UNIX };

	(void)state;
	is(a, 0, "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(v4_is_plain_with_the_port_behind),
		cmocka_unit_test(v6_is_in_brackets),
		cmocka_unit_test(link_local_names_its_interface),
		cmocka_unit_test(a_short_buffer_is_not_overrun),
		cmocka_unit_test(another_family_is_a_question_mark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
