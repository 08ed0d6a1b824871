# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
net_duo = %D%/duo.c %D%/duo.h
net_tests =
net_tests += %D%/wire
%C%_wire_SOURCES = %D%/wire.c $(net_duo)
%C%_wire_LDADD = $(TEST_LIBS) $(NET_LIBS)
net_tests += %D%/death
%C%_death_SOURCES = %D%/death.c $(net_duo)
%C%_death_LDADD = $(TEST_LIBS) $(NET_LIBS)
net_tests += %D%/hello
%C%_hello_SOURCES = %D%/hello.c $(net_duo)
%C%_hello_LDADD = $(TEST_LIBS) $(NET_LIBS)
net_tests += %D%/more
%C%_more_SOURCES = %D%/more.c $(net_duo)
%C%_more_LDADD = $(TEST_LIBS) $(NET_LIBS)
net_pair = $(net_duo) %D%/shm_pair.c %D%/shm_pair.h
net_tests += %D%/shm_modes
%C%_shm_modes_SOURCES = %D%/shm_modes.c $(net_pair)
%C%_shm_modes_LDADD = $(TEST_LIBS) $(NET_LIBS)
net_tests += %D%/shm_release
%C%_shm_release_SOURCES = %D%/shm_release.c $(net_pair)
%C%_shm_release_LDADD = $(TEST_LIBS) $(NET_LIBS)
net_tests += %D%/nomem
%C%_nomem_SOURCES = %D%/nomem.c $(net_duo)
%C%_nomem_LDADD = $(TEST_LIBS) $(NET_LIBS)
net_tests += %D%/shm_copy
%C%_shm_copy_SOURCES = %D%/shm_copy.c
%C%_shm_copy_LDADD = $(TEST_LIBS) $(NET_LIBS)
net_tests += %D%/shm_faults
%C%_shm_faults_SOURCES = %D%/shm_faults.c $(net_pair)
%C%_shm_faults_LDADD = $(TEST_LIBS) $(NET_LIBS)
check_PROGRAMS += $(net_tests)
TESTS += $(net_tests)
endif
