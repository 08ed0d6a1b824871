# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libnet.la
%C%_libnet_la_SOURCES = \
	%D%/net.h
%C%_libnet_la_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
%C%_libnet_la_LIBADD = $(VERBS_LIBS)
