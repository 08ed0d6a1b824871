# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
topo_tests = %D%/addr %D%/machine %D%/netns %D%/select %D%/sysfs
%C%_addr_SOURCES = %D%/addr.c
%C%_addr_LDADD = $(TEST_LIBS) $(TOPO_LIBS)
%C%_machine_SOURCES = %D%/machine.c
%C%_machine_LDADD = $(TEST_LIBS) $(TOPO_LIBS)
%C%_netns_SOURCES = %D%/netns.c
%C%_netns_LDADD = $(TEST_LIBS) $(TOPO_LIBS)
%C%_select_SOURCES = %D%/select.c
%C%_select_LDADD = $(TEST_LIBS) $(TOPO_LIBS)
%C%_sysfs_SOURCES = %D%/sysfs.c
%C%_sysfs_LDADD = $(TEST_LIBS) $(TOPO_LIBS)
check_PROGRAMS += $(topo_tests)
TESTS += $(topo_tests)
VALGRIND_TESTS += %D%/addr %D%/machine %D%/select %D%/sysfs
endif
