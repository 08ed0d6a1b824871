# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
coll_tests = %D%/coll
%C%_coll_SOURCES = %D%/coll.c
%C%_coll_LDADD = $(TEST_LIBS) $(COLL_LIBS)
check_PROGRAMS += $(coll_tests)
TESTS += $(coll_tests)
endif
