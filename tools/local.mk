# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += lune-info
lune_info_SOURCES = %D%/lune_info.c %D%/lune_info.h %D%/lune_info_config.c \
	%D%/lune_info_meta.c %D%/lune_info_overview.c %D%/lune_info_routes.c \
	%D%/lune_info_util.c
lune_info_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
lune_info_LDADD = liblune.la $(JANSSON_LIBS)
bin_PROGRAMS += lune-ckpt
lune_ckpt_SOURCES = %D%/ckpt/main.c %D%/ckpt/ckpt.h \
	%D%/ckpt/agree.c %D%/ckpt/bcast.c %D%/ckpt/bcast.h %D%/ckpt/dest.c \
	%D%/ckpt/lane.c %D%/ckpt/manifest.c %D%/ckpt/report.c \
	%D%/ckpt/safetensors.c %D%/ckpt/source.c %D%/ckpt/tree.c \
	%D%/ckpt/tree.h %D%/ckpt/verify.c
lune_ckpt_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
lune_ckpt_LDADD = liblune.la $(JANSSON_LIBS) $(XXHASH_LIBS)
EXTRA_DIST += %D%/demo.sh %D%/make_model.py
