# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libmeta.la
%C%_libmeta_la_SOURCES = \
	%D%/conn.c \
	%D%/conn.h \
	%D%/embedded.c \
	%D%/frame.c \
	%D%/frame.h \
	%D%/internal.h \
	%D%/lease.c \
	%D%/meta.c \
	%D%/meta.h \
	%D%/server.c \
	%D%/server.h \
	%D%/session.c \
	%D%/store.c \
	%D%/store.h \
	%D%/try.c \
	%D%/watch.c
%C%_libmeta_la_CFLAGS = $(AM_CFLAGS)
%C%_libmeta_la_LIBADD =
