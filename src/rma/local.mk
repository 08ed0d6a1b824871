# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += %D%/librma.la
%C%_librma_la_SOURCES =
