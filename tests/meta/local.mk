# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
META_SUITE = %D%/suite.c %D%/suite.h
meta_tests =
meta_tests += %D%/embedded
%C%_embedded_SOURCES = %D%/embedded.c $(META_SUITE)
%C%_embedded_LDADD = $(TEST_LIBS) $(META_LIBS)
check_PROGRAMS += $(meta_tests)
TESTS += $(meta_tests)
endif
