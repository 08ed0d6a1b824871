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
check_PROGRAMS += $(boot_tests)
TESTS += $(boot_tests)
VALGRIND_TESTS += %D%/detect %D%/url
endif
