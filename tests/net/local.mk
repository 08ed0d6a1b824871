# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
net_duo = %D%/duo.c %D%/duo.h
net_tests =
net_tests += %D%/wire
%C%_wire_SOURCES = %D%/wire.c $(net_duo)
%C%_wire_LDADD = $(TEST_LIBS) $(NET_LIBS)
check_PROGRAMS += $(net_tests)
TESTS += $(net_tests)
endif
