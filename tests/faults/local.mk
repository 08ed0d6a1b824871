# SPDX-License-Identifier: Apache-2.0
# Whole processes over the public API: these link the library itself.
if HAVE_CMOCKA
faults_tests = %D%/survivors %D%/incarnation %D%/host_process %D%/strangers
%C%_survivors_SOURCES = %D%/survivors.c
%C%_survivors_LDADD = $(TEST_LIBS) liblune.la
%C%_incarnation_SOURCES = %D%/incarnation.c
%C%_incarnation_LDADD = $(TEST_LIBS) liblune.la
%C%_host_process_SOURCES = %D%/host_process.c
%C%_host_process_LDADD = $(TEST_LIBS) liblune.la
%C%_strangers_SOURCES = %D%/strangers.c
%C%_strangers_LDADD = $(TEST_LIBS) liblune.la
if HAVE_ETCD
faults_tests += %D%/elastic_etcd
%C%_elastic_etcd_SOURCES = %D%/elastic.c tests/meta/etcd_server.c
%C%_elastic_etcd_LDADD = $(TEST_LIBS) liblune.la $(META_LIBS)
endif
check_PROGRAMS += $(faults_tests)
TESTS += $(faults_tests)
endif
