# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libboot.la
%C%_libboot_la_SOURCES = \
	%D%/boot.c \
	%D%/boot.h \
	%D%/bsock.c \
	%D%/detect.c \
	%D%/elastic.c \
	%D%/fixed.c \
	%D%/internal.h \
	%D%/key.c \
	%D%/pmix.c \
	%D%/ranks.c \
	%D%/rendezvous.c \
	%D%/rendezvous.h \
	%D%/self.c \
	%D%/tcp.c \
	%D%/tcp_rules.c \
	%D%/tcp_server.c \
	%D%/tcp_server.h \
	%D%/tcpstore.c \
	%D%/tcpstore.h \
	%D%/torch.c \
	%D%/url.c \
	%D%/world.c \
	%D%/world.h
%C%_libboot_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
%C%_libboot_la_LIBADD = $(PMIX_LIBS)
