# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
base_tests =
base_tests += %D%/alloc
%C%_alloc_SOURCES = %D%/alloc.c
%C%_alloc_LDADD = $(TEST_LIBS) $(BASE_LIBS)
base_tests += %D%/clock
%C%_clock_SOURCES = %D%/clock.c
%C%_clock_LDADD = $(TEST_LIBS) $(BASE_LIBS)
base_tests += %D%/config
%C%_config_SOURCES = %D%/config.c
%C%_config_LDADD = $(TEST_LIBS) $(BASE_LIBS)
base_tests += %D%/counters
%C%_counters_SOURCES = %D%/counters.c
%C%_counters_LDADD = $(TEST_LIBS) $(BASE_LIBS)
base_tests += %D%/error
%C%_error_SOURCES = %D%/error.c
%C%_error_LDADD = $(TEST_LIBS) $(BASE_LIBS)
base_tests += %D%/hash
%C%_hash_SOURCES = %D%/hash.c
%C%_hash_LDADD = $(TEST_LIBS) $(BASE_LIBS)
base_tests += %D%/log
%C%_log_SOURCES = %D%/log.c
%C%_log_LDADD = $(TEST_LIBS) $(BASE_LIBS)
base_tests += %D%/pack
%C%_pack_SOURCES = %D%/pack.c
%C%_pack_LDADD = $(TEST_LIBS) $(BASE_LIBS)
base_tests += %D%/uuid
%C%_uuid_SOURCES = %D%/uuid.c
%C%_uuid_LDADD = $(TEST_LIBS) $(BASE_LIBS)
check_PROGRAMS += $(base_tests)
TESTS += $(base_tests)
VALGRIND_TESTS += $(base_tests)
endif
