# SPDX-License-Identifier: Apache-2.0
nobase_include_HEADERS += \
	%D%/lune/coll.h \
	%D%/lune/comm.h \
	%D%/lune/ctx.h \
	%D%/lune/decls.h \
	%D%/lune/info.h \
	%D%/lune/log.h \
	%D%/lune/lune.h \
	%D%/lune/mem.h \
	%D%/lune/meta.h \
	%D%/lune/notify.h \
	%D%/lune/req.h \
	%D%/lune/rma.h \
	%D%/lune/signal.h \
	%D%/lune/status.h
