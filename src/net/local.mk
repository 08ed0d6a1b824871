# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libnet.la
%C%_libnet_la_SOURCES = \
	%D%/bell.c \
	%D%/card.c \
	%D%/connect.c \
	%D%/engine.c \
	%D%/engine.h \
	%D%/frame.c \
	%D%/hello.c \
	%D%/internal.h \
	%D%/link.c \
	%D%/link.h \
	%D%/listen.c \
	%D%/net.c \
	%D%/net.h \
	%D%/peer.c \
	%D%/post.c \
	%D%/rmem.c \
	%D%/self.c \
	%D%/shm.c \
	%D%/shm.h \
	%D%/shm_cma.c \
	%D%/shm_copy.c \
	%D%/shm_copy.h \
	%D%/shm_map.c \
	%D%/shm_op.c \
	%D%/shm_ring.c \
	%D%/stream.c \
	%D%/stream_rx.c \
	%D%/target.c \
	%D%/tcp.c \
	%D%/wait.c \
	%D%/wire.c \
	%D%/wire_send.c
%C%_libnet_la_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
%C%_libnet_la_LIBADD = $(VERBS_LIBS)
