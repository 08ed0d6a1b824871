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
fuzz_tests += %D%/fuzz_boot_url
%C%_fuzz_boot_url_SOURCES = %D%/fuzz_boot_url.c $(FUZZ_DRIVER)
%C%_fuzz_boot_url_LDADD = $(BOOT_LIBS)
fuzz_tests += %D%/fuzz_tcpstore
%C%_fuzz_tcpstore_SOURCES = %D%/fuzz_tcpstore.c $(FUZZ_DRIVER)
%C%_fuzz_tcpstore_LDADD = $(BOOT_LIBS)
fuzz_tests += %D%/fuzz_meta_frame
%C%_fuzz_meta_frame_SOURCES = %D%/fuzz_meta_frame.c $(FUZZ_DRIVER)
%C%_fuzz_meta_frame_LDADD = $(META_LIBS)
if HAVE_ETCD
fuzz_tests += %D%/fuzz_etcd
%C%_fuzz_etcd_SOURCES = %D%/fuzz_etcd.c $(FUZZ_DRIVER)
%C%_fuzz_etcd_LDADD = $(META_LIBS)
endif
fuzz_tests += %D%/fuzz_safetensors
%C%_fuzz_safetensors_SOURCES = %D%/fuzz_safetensors.c $(FUZZ_DRIVER) \
	tools/ckpt/safetensors.c tools/ckpt/agree.c
%C%_fuzz_safetensors_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tools/ckpt
%C%_fuzz_safetensors_LDADD = liblune.la $(JANSSON_LIBS)
check_PROGRAMS += $(fuzz_tests)
TESTS += $(fuzz_tests)
