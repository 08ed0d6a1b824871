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
if HAVE_ETCD
%C%_libmeta_la_SOURCES += \
	%D%/etcd.c \
	%D%/etcd.h \
	%D%/etcd_http.c \
	%D%/etcd_http.h \
	%D%/etcd_json.c \
	%D%/etcd_json.h \
	%D%/etcd_watch.c
%C%_libmeta_la_CFLAGS += $(ETCD_CFLAGS) $(JANSSON_CFLAGS)
%C%_libmeta_la_LIBADD += $(ETCD_LIBS) $(JANSSON_LIBS)
endif
