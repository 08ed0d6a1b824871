# SPDX-License-Identifier: Apache-2.0
# Libraries: required ones, and optional ones with --with-X.

# LUNE_NEED(VARIABLE, PKG-CONFIG MODULE, DEBIAN PACKAGE)
AC_DEFUN([LUNE_NEED], [
PKG_CHECK_MODULES([$1], [$2], [LUNE_MODULES="$LUNE_MODULES $2"],
	[AC_MSG_ERROR([$2 is needed (Debian: $3)])])
AC_SUBST([LUNE_MODULES])
])

# LUNE_WITH(NAME, VARIABLE, WHAT, MODULES, HEADERS, LIBRARIES, PACKAGES, CALL)
#
# --with-NAME=yes|no|auto|PREFIX.  On success HAVE_<VARIABLE> is defined to 1,
# the conditional HAVE_<VARIABLE> is true, and <VARIABLE>_CFLAGS/_LIBS are set.
# With yes or a PREFIX, failure is an error.  A PREFIX is looked at alone: the
# headers and libraries must be files below it, so that a wrong one cannot
# quietly mean the copy of the system.
AC_DEFUN([LUNE_WITH], [
AC_ARG_WITH([$1],
	[AS_HELP_STRING([--with-$1=yes|no|auto|PREFIX], [$3 (auto)])],
	[], [with_$1=auto])
lune_found=no lune_where=
AS_CASE([$with_$1],
	[no], [lune_why="switched off"],
	[yes|auto], [_LUNE_WITH_MODULES([$2], [$4])],
	[_LUNE_WITH_PREFIX([$2], [$with_$1], [$5], [$6])])
AS_IF([test $lune_found = yes], [_LUNE_WITH_LINK([$2], [$5], [$8])])
AS_IF([test $lune_found = no],
	[AS_CASE([$with_$1], [no|auto], [],
		[AC_MSG_ERROR(m4_normalize([--with-$1=$with_$1: $lune_why
			(Debian: $7)]))])
	$2_CFLAGS= $2_LIBS=],
	[AC_DEFINE([HAVE_$2], [1], [$3])
	AS_CASE([$with_$1], [yes|auto],
		[LUNE_MODULES="$LUNE_MODULES $4"],
		[LUNE_PRIVATE_LIBS="$LUNE_PRIVATE_LIBS $$2_LIBS"])
	lune_why=yes])
AS_VAR_COPY([lune_feature_$1], [lune_why])
AC_SUBST([$2_CFLAGS])
AC_SUBST([$2_LIBS])
AC_SUBST([LUNE_PRIVATE_LIBS])
AM_CONDITIONAL([HAVE_$2], [test $lune_found = yes])
])

# The copy that pkg-config knows.  A module may add an rpath into a directory
# of the distribution (Debian's pmix does); what we link is found without it.
AC_DEFUN([_LUNE_WITH_MODULES], [
AC_MSG_CHECKING([for $2])
AS_IF([$PKG_CONFIG --exists $2],
	[lune_found=yes
	$1_CFLAGS=`$PKG_CONFIG --cflags $2`
	$1_LIBS=`$PKG_CONFIG --libs $2 | sed \
		's/-Wl,-rpath[[ ,=]]\(-Wl,\)*[[^ ]]*//g; s/-Wl,--enable-new-dtags//g'`],
	[lune_why="not found by pkg-config: $2"])
AC_MSG_RESULT([$lune_found])
])

AC_DEFUN([_LUNE_WITH_PREFIX], [
AC_MSG_CHECKING([for $3 in $2])
lune_found=yes
for lune_h in $3; do
	AS_IF([test ! -f "$2/include/$lune_h"],
		[lune_found=no; lune_why="no $2/include/$lune_h"])
done
lune_dirs=
for lune_l in $4; do
	lune_dir=
	for lune_d in "$2/lib" "$2/lib64" "$2/lib/$host_cpu-$host_os"; do
		for lune_f in "$lune_d/lib$lune_l.so" "$lune_d/lib$lune_l.a"; do
			AS_IF([test -z "$lune_dir" && test -f "$lune_f"],
				[lune_dir=$lune_d])
		done
	done
	AS_IF([test -z "$lune_dir"],
		[lune_found=no; lune_why="no lib$lune_l below $2/lib"],
		[lune_dirs="$lune_dirs -L$lune_dir -Wl,-rpath,$lune_dir"
		lune_dirs="$lune_dirs -l$lune_l"])
done
AC_MSG_RESULT([$lune_found])
$1_CFLAGS="-I$2/include"
$1_LIBS="$lune_dirs"
])

# Headers and library must also work together.
AC_DEFUN([_LUNE_WITH_LINK], [
lune_save_CFLAGS=$CFLAGS lune_save_LIBS=$LIBS
CFLAGS="$CFLAGS $$1_CFLAGS"
LIBS="$$1_LIBS $LIBS"
AC_MSG_CHECKING([whether a program links with $$1_LIBS])
AC_LINK_IFELSE([AC_LANG_PROGRAM(
	[m4_foreach_w([header], [$2], [[#include <]header[>]
])], [$3;])], [], [lune_found=no; lune_why="a program with it does not link"])
AC_MSG_RESULT([$lune_found])
CFLAGS=$lune_save_CFLAGS LIBS=$lune_save_LIBS
])

# LUNE_WITH_CUDA
# Headers only: the driver is opened at run time, so that one build works on
# machines with and without a GPU.
AC_DEFUN([LUNE_WITH_CUDA], [
AC_ARG_WITH([cuda],
	[AS_HELP_STRING([--with-cuda=yes|no|auto|PREFIX],
		[CUDA memory; needs cuda.h only (auto)])],
	[], [with_cuda=auto])
CUDA_CFLAGS= lune_cuda=no lune_feature_cuda="switched off"
AS_CASE([$with_cuda],
	[no], [],
	[yes|auto], [lune_dirs="/usr/include /usr/local/cuda/include"],
	[lune_dirs="$with_cuda/include"])
AS_IF([test "x$with_cuda" != xno], [
	AC_MSG_CHECKING([for cuda.h])
	for lune_d in $lune_dirs; do
		AS_IF([test $lune_cuda = no && test -f "$lune_d/cuda.h"],
			[lune_cuda=yes; CUDA_CFLAGS="-I$lune_d"])
	done
	AC_MSG_RESULT([$lune_cuda])
	AS_IF([test $lune_cuda = yes], [lune_feature_cuda=yes],
		[lune_feature_cuda="no cuda.h"])])
AS_CASE([$lune_cuda:$with_cuda], [yes:*|no:no|no:auto], [],
	[AC_MSG_ERROR([--with-cuda=$with_cuda: no cuda.h in $lune_dirs])])
AS_IF([test $lune_cuda = yes],
	[AC_DEFINE([HAVE_CUDA], [1], [CUDA headers])])
AS_IF([test "x$CUDA_CFLAGS" = x-I/usr/include], [CUDA_CFLAGS=])
AC_SUBST([CUDA_CFLAGS])
AM_CONDITIONAL([HAVE_CUDA], [test $lune_cuda = yes])
])

# LUNE_SUMMARY: the table that ends configure.
AC_DEFUN([LUNE_SUMMARY], [
AS_IF([test "x$lune_cmocka" = xyes],
	[lune_feature_tests="yes"],
	[lune_feature_tests="without unit tests (Debian: libcmocka-dev)"])
cat <<LUNE_END

lune $PACKAGE_VERSION

  compiler      $CC $CFLAGS
  prefix        $prefix
  pmix          $lune_feature_pmix
  etcd          $lune_feature_etcd
  verbs         $lune_feature_verbs
  cuda          $lune_feature_cuda
  make check    $lune_feature_tests
  mpirun        ${MPIRUN:-not found: its tests are skipped}
  etcd server   ${ETCD:-not found: its tests are skipped}
  sanitizer     $enable_sanitizer
  coverage      $enable_coverage

LUNE_END
])
