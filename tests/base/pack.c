/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "tests/harness/unit.h"

static void write_all(struct ln_pack *k)
{
	ln_pack_u8(k, 0xfe);
	ln_pack_u16(k, 0x1234);
	ln_pack_u32(k, 0xdeadbeef);
	ln_pack_u64(k, UINT64_C(0x0102030405060708));
	ln_pack_bytes(k, "xyz", 3);
	ln_pack_str(k, "name");
	ln_pack_str(k, "");
}

static const uint8_t wire[] = {
	0xfe, 0x34, 0x12, 0xef, 0xbe, 0xad, 0xde, 8,   7,   6, 5, 4, 3, 2, 1,
	'x',  'y',  'z',  4,	0,    'n',  'a',  'm', 'e', 0, 0,
};

static void the_wire_format_is_little_endian(void **state)
{
	uint8_t buf[sizeof(wire)];
	struct ln_pack k = { .p = buf, .cap = sizeof(buf) };

	(void)state;
	write_all(&k);
	assert_false(k.bad);
	assert_int_equal(k.len, sizeof(wire));
	assert_memory_equal(buf, wire, sizeof(wire));
}

static void read_all(struct ln_unpack *u)
{
	char bytes[3], name[16];

	ln_unpack_u8(u);
	ln_unpack_u16(u);
	ln_unpack_u32(u);
	ln_unpack_u64(u);
	ln_unpack_bytes(u, bytes, 3);
	ln_unpack_str(u, name, sizeof(name));
	ln_unpack_str(u, name, sizeof(name));
}

static void what_was_written_is_read(void **state)
{
	struct ln_unpack u = { .p = wire, .len = sizeof(wire) };
	char bytes[3], name[5];

	(void)state;
	assert_int_equal(ln_unpack_u8(&u), 0xfe);
	assert_int_equal(ln_unpack_u16(&u), 0x1234);
	assert_int_equal(ln_unpack_u32(&u), 0xdeadbeef);
	assert_true(ln_unpack_u64(&u) == UINT64_C(0x0102030405060708));
	ln_unpack_bytes(&u, bytes, 3);
	assert_memory_equal(bytes, "xyz", 3);
	ln_unpack_str(&u, name, sizeof(name));
	assert_string_equal(name, "name");
	ln_unpack_str(&u, name, sizeof(name));
	assert_string_equal(name, "");
	assert_false(u.bad);
	assert_int_equal(u.pos, sizeof(wire));
}

static void a_short_buffer_is_never_overrun(void **state)
{
	(void)state;
	for (size_t cap = 0; cap < sizeof(wire); cap++) {
		/* Exactly cap bytes: a sanitizer sees one more. */
		uint8_t *buf = malloc(cap ? cap : 1);
		struct ln_pack k = { .p = buf, .cap = cap };

		assert_non_null(buf);
		write_all(&k);
		assert_true(k.bad);
		assert_true(k.len <= cap);
		assert_memory_equal(buf, wire, k.len);
		free(buf);
	}
}

static void a_cut_message_is_bad_and_reads_as_zero(void **state)
{
	(void)state;
	for (size_t len = 0; len < sizeof(wire); len++) {
		uint8_t *copy = malloc(len ? len : 1);
		struct ln_unpack u = { .p = copy, .len = len };

		assert_non_null(copy);
		memcpy(copy, wire, len);
		read_all(&u);
		assert_true(u.bad);
		assert_true(u.pos <= len);
		assert_int_equal(ln_unpack_u8(&u), 0);
		assert_int_equal(ln_unpack_u64(&u), 0);
		free(copy);
	}
}

static void a_bad_read_gives_zeroes(void **state)
{
	struct ln_unpack u = { .p = wire, .len = 2 };
	uint8_t bytes[4] = { 1, 2, 3, 4 }, zero[4] = { 0 };
	char name[4] = "abc";

	(void)state;
	ln_unpack_bytes(&u, bytes, 4);
	assert_true(u.bad);
	assert_memory_equal(bytes, zero, 4);
	ln_unpack_str(&u, name, sizeof(name));
	assert_string_equal(name, "");
}

static void strings_must_fit_with_their_nul(void **state)
{
	static const uint8_t text[] = { 3, 0, 'a', 'b', 'c' };
	struct ln_unpack u = { .p = text, .len = sizeof(text) };
	char name[4];

	(void)state;
	ln_unpack_str(&u, name, 4);
	assert_string_equal(name, "abc");
	assert_false(u.bad);
	u = (struct ln_unpack){ .p = text, .len = sizeof(text) };
	ln_unpack_str(&u, name, 3);
	assert_true(u.bad);
	assert_string_equal(name, "");
}

static void a_nul_inside_a_string_is_bad(void **state)
{
	static const uint8_t text[] = { 3, 0, 'a', 0, 'c' };
	struct ln_unpack u = { .p = text, .len = sizeof(text) };
	char name[8];

	(void)state;
	ln_unpack_str(&u, name, sizeof(name));
	assert_true(u.bad);
	assert_string_equal(name, "");
}

static void a_huge_length_does_not_wrap(void **state)
{
	struct ln_unpack u = { .p = wire, .len = sizeof(wire), .pos = 5 };
	struct ln_pack k = { .p = NULL, .cap = 0 };
	char *text = malloc(70000);
	uint8_t *big = malloc(80000);

	(void)state;
	assert_non_null(text);
	assert_non_null(big);
	ln_pack_bytes(&k, wire, SIZE_MAX);
	assert_true(k.bad);
	assert_int_equal(k.len, 0);
	k = (struct ln_pack){ .p = big, .cap = 8, .len = 2 };
	ln_pack_bytes(&k, wire, SIZE_MAX);
	assert_true(k.bad);
	assert_int_equal(k.len, 2);
	memset(text, 'a', 69999);
	text[69999] = '\0';
	k = (struct ln_pack){ .p = big, .cap = 80000 };
	ln_pack_str(&k, text);
	assert_true(k.bad);
	assert_int_equal(k.len, 0);
	ln_unpack_bytes(&u, big, sizeof(wire));
	assert_true(u.bad);
	assert_int_equal(u.pos, 5);
	free(text);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_wire_format_is_little_endian),
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(a_short_buffer_is_never_overrun),
		cmocka_unit_test(a_cut_message_is_bad_and_reads_as_zero),
		cmocka_unit_test(a_bad_read_gives_zeroes),
		cmocka_unit_test(strings_must_fit_with_their_nul),
		cmocka_unit_test(a_nul_inside_a_string_is_bad),
		cmocka_unit_test(a_huge_length_does_not_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
