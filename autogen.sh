#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make configure and the other generated files of the build.
set -e
cd "$(dirname "$0")"
mkdir -p config/aux config/m4
exec autoreconf --install --force
