# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libbase.la
%C%_libbase_la_SOURCES = \
	%D%/alloc.c \
	%D%/base.h \
	%D%/clock.c \
	%D%/config.c \
	%D%/config.def \
	%D%/counters.c \
	%D%/counters.def \
	%D%/error.c \
	%D%/hash.c \
	%D%/log.c \
	%D%/log.h \
	%D%/pack.c \
	%D%/rand.c \
	%D%/status.c \
	%D%/uuid.c
%C%_libbase_la_LIBADD = $(XXHASH_LIBS) $(SODIUM_LIBS)
