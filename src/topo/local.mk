# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libtopo.la
%C%_libtopo_la_SOURCES = \
	%D%/addr.c \
	%D%/hw.c \
	%D%/internal.h \
	%D%/nics.c \
	%D%/select.c \
	%D%/sysfs.c \
	%D%/topo.c \
	%D%/topo.h
%C%_libtopo_la_LIBADD = $(HWLOC_LIBS)
