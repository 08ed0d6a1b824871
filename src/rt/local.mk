# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/librt.la
%C%_librt_la_SOURCES = \
	%D%/agree.c \
	%D%/comm.c \
	%D%/comm_info.c \
	%D%/comm_split.c \
	%D%/cq.c \
	%D%/ctx.c \
	%D%/deliver.c \
	%D%/elastic.c \
	%D%/failure.c \
	%D%/fork.c \
	%D%/gather.c \
	%D%/inbox.c \
	%D%/info.c \
	%D%/meta_server.c \
	%D%/req.c \
	%D%/req_pool.c \
	%D%/rt.h \
	%D%/send.c
