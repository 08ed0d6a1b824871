# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += %D%/man/lune-ckpt.1 %D%/man/lune-info.1
# The variables' page is made from the table that the library is built with.
nodist_man_MANS = docs/man/lune-config.7
CLEANFILES += docs/man/lune-config.7
config_page = $(srcdir)/docs/man/lune-config
docs/man/lune-config.7: src/base/config.def docs/man/config.awk \
		docs/man/lune-config.head docs/man/lune-config.tail
	$(AM_V_GEN)$(MKDIR_P) docs/man && \
	{ cat $(config_page).head && \
	$(AWK) -v form=mdoc -f $(srcdir)/docs/man/config.awk \
		$(srcdir)/src/base/config.def && \
	cat $(config_page).tail; } >$@.tmp && mv $@.tmp $@
EXTRA_DIST += docs/man/config.awk docs/man/lune-config.head \
	docs/man/lune-config.tail
noinst_PROGRAMS += kv_handoff put_get
kv_handoff_SOURCES = %D%/examples/kv_handoff.c
kv_handoff_LDADD = liblune.la
put_get_SOURCES = %D%/examples/put_get.c
put_get_LDADD = liblune.la
