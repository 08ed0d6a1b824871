/* SPDX-License-Identifier: Apache-2.0 */
/* Directories: what POSIX leaves to the program. */
#ifndef CKPT_TREE_H
#define CKPT_TREE_H

#include <stddef.h>

/* Make the directories of path past its first `below` bytes; -1 and errno. */
int tree_make_parents(const char *path, size_t below);
/* Remove a file or a directory with all below; follows no symbolic link. */
void tree_remove(const char *path);

#endif
