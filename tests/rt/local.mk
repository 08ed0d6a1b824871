# SPDX-License-Identifier: Apache-2.0
# They need memory to put to, so they link the layers above, too.
if HAVE_CMOCKA
rt_tests = %D%/ctx %D%/comm %D%/req
%C%_ctx_SOURCES = %D%/ctx.c
%C%_ctx_LDADD = $(TEST_LIBS) $(COLL_LIBS)
%C%_comm_SOURCES = %D%/comm.c
%C%_comm_LDADD = $(TEST_LIBS) $(COLL_LIBS)
%C%_req_SOURCES = %D%/req.c
%C%_req_LDADD = $(TEST_LIBS) $(COLL_LIBS)
check_PROGRAMS += $(rt_tests)
TESTS += $(rt_tests)
endif
