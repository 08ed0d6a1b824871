# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libtopo.la
%C%_libtopo_la_SOURCES = %D%/topo.h %D%/topo.c %D%/nic.h %D%/nic.c
%C%_libtopo_la_LIBADD = $(HWLOC_LIBS)
