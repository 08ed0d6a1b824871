# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libboot.la
%C%_libboot_la_SOURCES = \
	%D%/boot.h
%C%_libboot_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_libboot_la_LIBADD = $(PMIX_LIBS)
