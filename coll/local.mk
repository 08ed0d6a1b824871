# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libcoll.la
%C%_libcoll_la_SOURCES = %D%/coll.h %D%/coll.c \
	%D%/bcast_tree.c %D%/bcast_chain.c
