# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/librma.la
%C%_librma_la_SOURCES = \
	%D%/atomic.c \
	%D%/flush.c \
	%D%/get.c \
	%D%/inline.c \
	%D%/list.c \
	%D%/mem.c \
	%D%/notify.c \
	%D%/pages.c \
	%D%/post.c \
	%D%/put.c \
	%D%/rma.h \
	%D%/rmem.c \
	%D%/signal.c \
	%D%/win.c
