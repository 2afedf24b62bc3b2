/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of seccomp filters (seccomp(2), struct sock_filter). */
#ifndef SECCOMP_FILTER_H
#define SECCOMP_FILTER_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD(field)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define RETURN(value)  BPF_STMT(BPF_RET | BPF_K, value)
#define REFUSE(number) RETURN(SECCOMP_RET_ERRNO | (number))
/* Skips `yes` or `no` instructions. */
#define COMPARE(how, value, yes, no) BPF_JUMP(BPF_JMP | BPF_##how | BPF_K, value, yes, no)

#endif
