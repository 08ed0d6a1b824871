# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libmeta.la
%C%_libmeta_la_SOURCES = \
	%D%/meta.h
%C%_libmeta_la_CFLAGS = $(AM_CFLAGS) $(ETCD_CFLAGS)
%C%_libmeta_la_LIBADD = $(ETCD_LIBS)
