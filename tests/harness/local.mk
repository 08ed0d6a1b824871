# SPDX-License-Identifier: Apache-2.0
check_LTLIBRARIES += %D%/libharness.la
%C%_libharness_la_SOURCES = \
	%D%/inside.c \
	%D%/ranks.c \
	%D%/ranks.h \
	%D%/report.c \
	%D%/run.h \
	%D%/unit.h

# What a unit test links besides its folder's libraries (META_LIBS, ...).
TEST_LIBS = %D%/libharness.la $(CMOCKA_LIBS)

if HAVE_CMOCKA
check_PROGRAMS += %D%/ranks_test
TESTS += %D%/ranks_test
VALGRIND_TESTS += %D%/ranks_test
%C%_ranks_test_SOURCES = %D%/ranks_test.c
%C%_ranks_test_LDADD = $(TEST_LIBS) $(BASE_LIBS)
endif
