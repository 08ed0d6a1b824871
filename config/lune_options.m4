# SPDX-License-Identifier: Apache-2.0
# Options of the compiler and the linker: --enable-debug, --enable-sanitizer,
# --enable-coverage, warnings, the version script.

# LUNE_ARG_DEBUG
# --enable-debug: no optimisation.  Must come before AC_PROG_CC, which else
# sets CFLAGS to "-g -O2".  A CFLAGS of the user wins.
AC_DEFUN([LUNE_ARG_DEBUG], [
AC_ARG_ENABLE([debug],
	[AS_HELP_STRING([--enable-debug], [compile with -O0 -g3])],
	[], [enable_debug=no])
AS_IF([test "x$enable_debug" != xno && test "x${CFLAGS+set}" != xset],
	[CFLAGS="-O0 -g3"])
])

# LUNE_IF_CFLAG(FLAG, IF-YES, [IF-NO])
# Does the compiler take FLAG?  -Werror, since clang only warns about flags
# that it does not know.
AC_DEFUN([LUNE_IF_CFLAG], [
AS_VAR_PUSHDEF([cache], [lune_cv_cflag_$1])dnl
AC_CACHE_CHECK([whether $CC takes $1], [cache], [
	lune_save_CFLAGS=$CFLAGS
	CFLAGS="$CFLAGS -Werror $1"
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
		[AS_VAR_SET([cache], [yes])], [AS_VAR_SET([cache], [no])])
	CFLAGS=$lune_save_CFLAGS])
AS_VAR_IF([cache], [yes], [$2], [$3])
AS_VAR_POPDEF([cache])dnl
])

# LUNE_IF_LINK(FLAGS, IF-YES, [IF-NO])
AC_DEFUN([LUNE_IF_LINK], [
AC_MSG_CHECKING([whether the linker takes $1])
lune_save_LDFLAGS=$LDFLAGS
LDFLAGS="$LDFLAGS $1"
AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
	[lune_link=yes], [lune_link=no])
LDFLAGS=$lune_save_LDFLAGS
AC_MSG_RESULT([$lune_link])
AS_IF([test $lune_link = yes], [$2], [$3])
])

# LUNE_WARNINGS
# Never -Werror: a new compiler must not break somebody's build.  .ci/run
# fails on any warning instead.
AC_DEFUN([LUNE_WARNINGS], [
WARN_CFLAGS=
m4_foreach_w([flag], [-Wall -Wextra -Wshadow -Wstrict-prototypes
	-Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wvla
	-Wformat=2 -Wundef -Wwrite-strings -Wimplicit-fallthrough],
	[LUNE_IF_CFLAG(flag, [WARN_CFLAGS="$WARN_CFLAGS flag"])])
AC_SUBST([WARN_CFLAGS])
])

# LUNE_SANITIZER
# Sets SANITIZER_CFLAGS for compiling and linking everything.
AC_DEFUN([LUNE_SANITIZER], [
AC_ARG_ENABLE([sanitizer],
	[AS_HELP_STRING([--enable-sanitizer=LIST],
		[compile with -fsanitize=LIST: address,undefined or thread])],
	[], [enable_sanitizer=no])
SANITIZER_CFLAGS=
AS_CASE([$enable_sanitizer],
	[no], [],
	[yes], [AC_MSG_ERROR([--enable-sanitizer needs a list, for example]
		[--enable-sanitizer=address,undefined])],
	[SANITIZER_CFLAGS="-fsanitize=$enable_sanitizer"
	SANITIZER_CFLAGS="$SANITIZER_CFLAGS -fno-omit-frame-pointer"
	LUNE_IF_LINK([$SANITIZER_CFLAGS], [],
		[AC_MSG_ERROR([$CC cannot link with $SANITIZER_CFLAGS])])
	AS_CASE([$enable_sanitizer], [*undefined*], [SANITIZER_CFLAGS="dnl
$SANITIZER_CFLAGS -fno-sanitize-recover=undefined"])
	dnl gcc warns of every atomic_thread_fence, which TSan does not see;
	dnl the code does not rely on fences for what TSan is to find.
	AS_CASE([$enable_sanitizer], [*thread*],
		[LUNE_IF_LINK([-Wno-tsan],
			[SANITIZER_CFLAGS="$SANITIZER_CFLAGS -Wno-tsan"])])])
AC_SUBST([SANITIZER_CFLAGS])
AC_SUBST([LUNE_SANITIZER], [$enable_sanitizer])
AM_CONDITIONAL([SANITIZER], [test "x$enable_sanitizer" != xno])
])

# LUNE_COVERAGE
AC_DEFUN([LUNE_COVERAGE], [
AC_ARG_ENABLE([coverage],
	[AS_HELP_STRING([--enable-coverage],
		[count executed lines (make coverage)])],
	[], [enable_coverage=no])
COVERAGE_CFLAGS=
AS_IF([test "x$enable_coverage" != xno], [COVERAGE_CFLAGS="--coverage -O0"])
AC_SUBST([COVERAGE_CFLAGS])
AM_CONDITIONAL([COVERAGE], [test "x$enable_coverage" != xno])
])

# LUNE_LINKER
# LIB_LDFLAGS of the shared library.  -z defs finds missing libraries at link
# time, but a sanitizer's symbols come from the program, so not with one.
AC_DEFUN([LUNE_LINKER], [
LIB_LDFLAGS=
LUNE_IF_LINK([-Wl,--as-needed], [LIB_LDFLAGS="-Wl,--as-needed"])
AS_IF([test "x$enable_sanitizer" = xno],
	[LUNE_IF_LINK([-Wl,-z,defs],
		[LIB_LDFLAGS="$LIB_LDFLAGS -Wl,-z,defs"])])
LUNE_IF_LINK([-Wl,--version-script=$srcdir/config/liblune.map],
	[lune_version_script=yes], [lune_version_script=no])
AC_SUBST([LIB_LDFLAGS])
AM_CONDITIONAL([VERSION_SCRIPT], [test $lune_version_script = yes])
])
