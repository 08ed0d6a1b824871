# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/libcoll.la
%C%_libcoll_la_SOURCES =
