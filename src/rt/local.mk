# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/librt.la
%C%_librt_la_SOURCES = \
	%D%/rt.h
