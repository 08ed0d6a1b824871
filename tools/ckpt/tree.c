/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tree.h"

int tree_make_parents(const char *path, size_t below)
{
	char dir[8192];

	for (const char *p = path + below + 1; (p = strchr(p, '/')); p++) {
		if ((size_t)(p - path) >= sizeof(dir)) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(dir, path, (size_t)(p - path));
		dir[p - path] = 0;
		if (mkdir(dir, 0777) && errno != EEXIST)
			return -1;
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void tree_remove(const char *path)
{
	(void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
