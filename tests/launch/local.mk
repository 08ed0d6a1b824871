# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += %D%/boot_probe
%C%_boot_probe_SOURCES = %D%/boot_probe.c
%C%_boot_probe_LDADD = $(BOOT_LIBS)

EXTRA_DIST += %D%/common.sh %D%/netns.sh %D%/get-torch.sh
boot_launcher_tests = %D%/boot_mpirun.sh %D%/boot_torchrun.sh \
	%D%/boot_netns.sh
dist_check_SCRIPTS += $(boot_launcher_tests)
LAUNCHER_TESTS += $(boot_launcher_tests)

# The main job, with the programs that users run.
EXTRA_DIST += %D%/job.sh
job_launcher_tests = %D%/job_mpirun.sh %D%/job_torchrun.sh \
	%D%/job_etcd.sh %D%/job_netns.sh
dist_check_SCRIPTS += $(job_launcher_tests)
LAUNCHER_TESTS += $(job_launcher_tests)
