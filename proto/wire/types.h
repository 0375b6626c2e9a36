/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Little-endian field types and their conversions, the same names in the kernel and in user
 * space. Every multi-byte field of the wire format is a __le type and is read and written only
 * through these, so that sparse can check the kernel's use of them.
 */
#ifndef RBLK_WIRE_TYPES_H
#define RBLK_WIRE_TYPES_H

#ifdef __KERNEL__

#include <linux/types.h>
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#define rblk_le16(x) le16_to_cpu(x)
#define rblk_le32(x) le32_to_cpu(x)
#define rblk_le64(x) le64_to_cpu(x)
#define rblk_to_le16(x) cpu_to_le16(x)
#define rblk_to_le32(x) cpu_to_le32(x)
#define rblk_to_le64(x) cpu_to_le64(x)

#else /* user space */

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define rblk_le16(x) le16toh(x)
#define rblk_le32(x) le32toh(x)
#define rblk_le64(x) le64toh(x)
#define rblk_to_le16(x) htole16(x)
#define rblk_to_le32(x) htole32(x)
#define rblk_to_le64(x) htole64(x)

#endif

/* A struct of the wire: its size and the offset of a field, asserted under its definition. */
#define RBLK_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type " size")
#define RBLK_ASSERT_OFFSET(type, field, bytes)                                                     \
	static_assert(offsetof(type, field) == (bytes), #type "." #field " offset")

#endif
