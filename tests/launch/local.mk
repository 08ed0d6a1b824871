# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += %D%/boot_probe
%C%_boot_probe_SOURCES = %D%/boot_probe.c
%C%_boot_probe_LDADD = $(BOOT_LIBS)
