# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libmem.la
%C%_libmem_la_SOURCES = \
	%D%/alloc.c \
	%D%/alloc.h \
	%D%/mem.h \
	%D%/table.c \
	%D%/ticket.c
