# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
mem_tests =
mem_tests += %D%/pages
%C%_pages_SOURCES = %D%/pages.c
%C%_pages_LDADD = $(TEST_LIBS) $(MEM_LIBS)
mem_tests += %D%/table
%C%_table_SOURCES = %D%/table.c
%C%_table_LDADD = $(TEST_LIBS) $(MEM_LIBS)
mem_tests += %D%/ticket
%C%_ticket_SOURCES = %D%/ticket.c
%C%_ticket_LDADD = $(TEST_LIBS) $(MEM_LIBS)
check_PROGRAMS += $(mem_tests)
TESTS += $(mem_tests)
VALGRIND_TESTS += %D%/table %D%/ticket
endif
