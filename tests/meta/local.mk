# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
META_SUITE = %D%/suite.c %D%/suite.h
meta_tests =
meta_tests += %D%/embedded
%C%_embedded_SOURCES = %D%/embedded.c $(META_SUITE)
%C%_embedded_LDADD = $(TEST_LIBS) $(META_LIBS)
meta_tests += %D%/server
%C%_server_SOURCES = %D%/server.c $(META_SUITE)
%C%_server_LDADD = $(TEST_LIBS) $(META_LIBS)
meta_tests += %D%/store
%C%_store_SOURCES = %D%/store.c
%C%_store_LDADD = $(TEST_LIBS) $(META_LIBS)
VALGRIND_TESTS += %D%/server %D%/store
if HAVE_ETCD
META_ETCD = %D%/etcd_server.c %D%/etcd_server.h
meta_tests += %D%/etcd
%C%_etcd_SOURCES = %D%/etcd.c $(META_ETCD) $(META_SUITE)
%C%_etcd_LDADD = $(TEST_LIBS) $(META_LIBS)
meta_tests += %D%/etcd_faults
%C%_etcd_faults_SOURCES = %D%/etcd_faults.c $(META_ETCD) $(META_SUITE)
%C%_etcd_faults_LDADD = $(TEST_LIBS) $(META_LIBS)
meta_tests += %D%/etcd_cluster
%C%_etcd_cluster_SOURCES = %D%/etcd_cluster.c $(META_ETCD) $(META_SUITE)
%C%_etcd_cluster_LDADD = $(TEST_LIBS) $(META_LIBS)
endif
check_PROGRAMS += $(meta_tests)
TESTS += $(meta_tests)
endif
