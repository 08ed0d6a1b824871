# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
boot_tests =
boot_tests += %D%/detect
%C%_detect_SOURCES = %D%/detect.c
%C%_detect_LDADD = $(TEST_LIBS) $(BOOT_LIBS)
boot_tests += %D%/tcp
%C%_tcp_SOURCES = %D%/tcp.c %D%/world.h
%C%_tcp_LDADD = $(TEST_LIBS) $(BOOT_LIBS)
boot_tests += %D%/torch
%C%_torch_SOURCES = %D%/torch.c %D%/store.c %D%/store.h %D%/world.h
%C%_torch_LDADD = $(TEST_LIBS) $(BOOT_LIBS)
boot_tests += %D%/url
%C%_url_SOURCES = %D%/url.c
%C%_url_LDADD = $(TEST_LIBS) $(BOOT_LIBS)
BOOT_WORLDS = %D%/worlds.c %D%/worlds.h %D%/world.h
boot_tests += %D%/worlds_embedded
%C%_worlds_embedded_SOURCES = %D%/worlds_embedded.c $(BOOT_WORLDS)
%C%_worlds_embedded_LDADD = $(TEST_LIBS) $(BOOT_LIBS)
if HAVE_ETCD
boot_tests += %D%/worlds_etcd
%C%_worlds_etcd_SOURCES = %D%/worlds_etcd.c $(BOOT_WORLDS) $(META_ETCD)
%C%_worlds_etcd_LDADD = $(TEST_LIBS) $(BOOT_LIBS)
endif
check_PROGRAMS += $(boot_tests)
TESTS += $(boot_tests)
VALGRIND_TESTS += %D%/detect %D%/url
endif
