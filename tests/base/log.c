/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/base.h"
#include "tests/harness/unit.h"

struct seen {
	int lines, level;
	char text[4000];
};

static void sink(void *arg, int level, const char *line)
{
	struct seen *s = arg;

	s->lines++;
	s->level = level;
	snprintf(s->text, sizeof(s->text), "%s", line);
}

static void a_sink_gets_lines_up_to_the_level(void **state)
{
	struct seen s = { 0 };

	(void)state;
	lune_log_sink(sink, &s);
	lune_log_set_level(LUNE_LOG_WARN);
	ln_info("not this");
	assert_int_equal(s.lines, 0);
	ln_warn("%s %d", "that", 7);
	assert_int_equal(s.lines, 1);
	assert_int_equal(s.level, LUNE_LOG_WARN);
	assert_string_equal(s.text, "that 7");
	lune_log_set_level(LUNE_LOG_DEBUG);
	ln_debug("now");
	assert_int_equal(s.lines, 2);
	lune_log_set_level(LUNE_LOG_NONE);
	ln_log(LUNE_LOG_ERROR, "never");
	assert_int_equal(s.lines, 2);
	lune_log_sink(NULL, NULL);
}

static void a_message_below_the_level_is_not_formed(void **state)
{
	int formed = 0;

	(void)state;
	lune_log_set_level(LUNE_LOG_WARN);
	ln_debug("%d", ++formed);
	assert_int_equal(formed, 0);
}

static void control_characters_cannot_forge_a_line(void **state)
{
	struct seen s = { 0 };

	(void)state;
	lune_log_set_level(LUNE_LOG_WARN);
	lune_log_sink(sink, &s);
	ln_warn("a\nb\r\x1b[2J\x7f");
	lune_log_sink(NULL, NULL);
	assert_string_equal(s.text, "a b  [2J ");
}

static void a_long_message_is_cut_with_dots(void **state)
{
	struct seen s = { 0 };
	char text[3000];
	size_t n;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	lune_log_set_level(LUNE_LOG_WARN);
	lune_log_sink(sink, &s);
	ln_warn("%s", text);
	lune_log_sink(NULL, NULL);
	n = strlen(s.text);
	assert_in_range(n, 500, 2900);
	assert_string_equal(s.text + n - 3, "...");
}

/* What a call writes to a file descriptor. */
static size_t captured(int fd, const char *message, char *out, size_t bytes)
{
	FILE *f = tmpfile();
	int old = dup(fd);
	ssize_t n;

	assert_non_null(f);
	fflush(NULL);
	dup2(fileno(f), fd);
	ln_warn("%s", message);
	fflush(NULL);
	dup2(old, fd);
	close(old);
	n = pread(fileno(f), out, bytes - 1, 0);
	fclose(f);
	assert_true(n >= 0);
	out[n] = '\0';
	return (size_t)n;
}

static void stderr_gets_one_whole_line_and_stdout_nothing(void **state)
{
	char text[4000], pid[32];
	size_t n;

	(void)state;
	lune_log_set_level(LUNE_LOG_WARN);
	n = captured(STDERR_FILENO, "a message", text, sizeof(text));
	snprintf(pid, sizeof(pid), " %d ", (int)getpid());
	assert_true(n > 0);
	assert_ptr_equal(strchr(text, '\n'), text + n - 1);
	assert_non_null(strstr(text, pid));
	assert_non_null(strstr(text, " warn: a message\n"));
	assert_int_equal(captured(STDOUT_FILENO, "x", text, sizeof(text)), 0);
}

static void *log_in_a_loop(void *arg)
{
	(void)arg;
	for (int i = 0; i < 2000; i++)
		ln_warn("line %d", i);
	return NULL;
}

static _Atomic int in_sink_after_end;
static _Atomic bool ended;

static void judging_sink(void *arg, int level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
	if (atomic_load(&ended))
		atomic_fetch_add(&in_sink_after_end, 1);
}

static void quiet_sink(void *arg, int level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void a_replaced_sink_does_not_run_any_more(void **state)
{
	pthread_t t[2];

	(void)state;
	lune_log_set_level(LUNE_LOG_WARN);
	lune_log_sink(quiet_sink, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, log_in_a_loop, NULL);
	for (int i = 0; i < 200; i++) {
		atomic_store(&ended, false);
		lune_log_sink(judging_sink, NULL);
		lune_log_sink(quiet_sink, NULL);
		atomic_store(&ended, true);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	lune_log_sink(NULL, NULL);
	assert_int_equal(atomic_load(&in_sink_after_end), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sink_gets_lines_up_to_the_level),
		cmocka_unit_test(a_message_below_the_level_is_not_formed),
		cmocka_unit_test(control_characters_cannot_forge_a_line),
		cmocka_unit_test(a_long_message_is_cut_with_dots),
		cmocka_unit_test(stderr_gets_one_whole_line_and_stdout_nothing),
		cmocka_unit_test(a_replaced_sink_does_not_run_any_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
