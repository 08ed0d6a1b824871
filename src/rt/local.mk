# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/librt.la
%C%_librt_la_SOURCES = \
	%D%/info.c \
	%D%/meta_server.c \
	%D%/rt.h
