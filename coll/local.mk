# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libcoll.la
%C%_libcoll_la_SOURCES = \
	%D%/barrier.c \
	%D%/bcast_chain.c \
	%D%/bcast_tree.c \
	%D%/coll.c \
	%D%/coll.h \
	%D%/state.c
