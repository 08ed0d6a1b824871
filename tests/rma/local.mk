# SPDX-License-Identifier: Apache-2.0
# One suite (suite.c) over every route; each program is a table of cases.
if HAVE_CMOCKA
RMA_SUITE = %D%/suite.c %D%/suite.h
rma_tests =
rma_tests += %D%/atomics
%C%_atomics_SOURCES = %D%/atomics.c $(RMA_SUITE)
%C%_atomics_LDADD = $(TEST_LIBS) $(RMA_LIBS)
rma_tests += %D%/killed
%C%_killed_SOURCES = %D%/killed.c $(RMA_SUITE)
%C%_killed_LDADD = $(TEST_LIBS) $(RMA_LIBS)
rma_tests += %D%/lists
%C%_lists_SOURCES = %D%/lists.c $(RMA_SUITE)
%C%_lists_LDADD = $(TEST_LIBS) $(RMA_LIBS)
rma_tests += %D%/notify
%C%_notify_SOURCES = %D%/notify.c $(RMA_SUITE)
%C%_notify_LDADD = $(TEST_LIBS) $(RMA_LIBS)
rma_tests += %D%/pages
%C%_pages_SOURCES = %D%/pages.c $(RMA_SUITE)
%C%_pages_LDADD = $(TEST_LIBS) $(RMA_LIBS)
rma_tests += %D%/put_get
%C%_put_get_SOURCES = %D%/put_get.c $(RMA_SUITE)
%C%_put_get_LDADD = $(TEST_LIBS) $(RMA_LIBS)
rma_tests += %D%/release
%C%_release_SOURCES = %D%/release.c $(RMA_SUITE)
%C%_release_LDADD = $(TEST_LIBS) $(RMA_LIBS)
rma_tests += %D%/report
%C%_report_SOURCES = %D%/report.c $(RMA_SUITE)
%C%_report_LDADD = $(TEST_LIBS) $(RMA_LIBS)
rma_tests += %D%/signals
%C%_signals_SOURCES = %D%/signals.c $(RMA_SUITE)
%C%_signals_LDADD = $(TEST_LIBS) $(RMA_LIBS)
rma_tests += %D%/windows
%C%_windows_SOURCES = %D%/windows.c $(RMA_SUITE)
%C%_windows_LDADD = $(TEST_LIBS) $(RMA_LIBS)
check_PROGRAMS += $(rma_tests)
TESTS += $(rma_tests)
endif
