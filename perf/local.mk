# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += lune_put_bw lune_put_latency
lune_put_bw_SOURCES = %D%/lune_put_bw.c %D%/osu.c %D%/osu.h
lune_put_bw_LDADD = liblune.la
lune_put_latency_SOURCES = %D%/lune_put_latency.c %D%/osu.c %D%/osu.h
lune_put_latency_LDADD = liblune.la
