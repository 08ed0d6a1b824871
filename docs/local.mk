# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += %D%/man/lune-ckpt.1
noinst_PROGRAMS += kv_handoff put_get
kv_handoff_SOURCES = %D%/examples/kv_handoff.c
kv_handoff_LDADD = liblune.la
put_get_SOURCES = %D%/examples/put_get.c
put_get_LDADD = liblune.la
