# SPDX-License-Identifier: Apache-2.0
# A fuzzer is one file and driver.c; each runs a bounded number of inputs.
FUZZ_DRIVER = %D%/driver.c %D%/fuzz.h

fuzz_tests =
fuzz_tests += %D%/fuzz_ticket
%C%_fuzz_ticket_SOURCES = %D%/fuzz_ticket.c $(FUZZ_DRIVER)
%C%_fuzz_ticket_LDADD = $(MEM_LIBS)
fuzz_tests += %D%/fuzz_frame
%C%_fuzz_frame_SOURCES = %D%/fuzz_frame.c $(FUZZ_DRIVER)
%C%_fuzz_frame_LDADD = $(NET_LIBS)
check_PROGRAMS += $(fuzz_tests)
TESTS += $(fuzz_tests)
