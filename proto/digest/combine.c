/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "proto/digest/combine.h"

#include "proto/digest/digest.h"

/* The polynomial, bits reversed: bit 31 is the coefficient of x^0. */
#define DIGEST_POLYNOMIAL 0x82f63b78u
#define DIGEST_ONE 0x80000000u

/* a * b modulo the polynomial. */
static uint32_t digest_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;
	uint32_t bit;

	for (bit = DIGEST_ONE; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = b & 1 ? b >> 1 ^ DIGEST_POLYNOMIAL : b >> 1;
	}
	return product;
}

/* The CRC of 2^n zeroes gives that of 2^(n + 1). */
uint32_t rblk_digest_zeroes(uint64_t bytes)
{
	uint32_t power = rblk_digest(0, "", 1); /* a byte of zero */
	uint64_t power_bytes = 1;
	uint32_t crc = 0;

	for (; bytes; bytes >>= 1, power_bytes <<= 1) {
		if (bytes & 1)
			crc = rblk_digest_combine(crc, power, power_bytes);
		power = rblk_digest_combine(power, power, power_bytes);
	}
	return crc;
}

/*
 * Behind `bytes` further bytes the first CRC counts as itself times x^(8 * bytes); the inversions
 * before and after cancel out, because both CRCs have them.
 */
uint32_t rblk_digest_combine(uint32_t first, uint32_t second, uint64_t second_bytes)
{
	uint32_t power = DIGEST_ONE >> 8; /* x^8, then its squares */

	for (; second_bytes; second_bytes >>= 1) {
		if (second_bytes & 1)
			first = digest_multiply(first, power);
		power = digest_multiply(power, power);
	}
	return first ^ second;
}
