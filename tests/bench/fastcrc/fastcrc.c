// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * fastcrc: a "crc32" that does not read the data, for benchmarks under emulation, and for tests in which damaged packets
 * are to arrive (tests/lab/boot-nocrc).
 *
 * rdma_rxe computes a CRC of every packet through the kernel's crypto interface, where a real
 * device has a circuit for it. Under emulation that CRC is most of the link's cost and hides the
 * cost of protocols. This one depends only on the number of bytes. So both ends agree on it, but
 * damaged packets are not detected: never use it for any other test of correctness.
 *
 * It must be loaded before rdma_rxe, and the crypto manager must not test it (cryptomgr.notests=1),
 * because it would fail.
 */
#include <crypto/internal/hash.h>
#include <linux/module.h>

struct fastcrc_state {
	u32 bytes;
};

/* rxe sets a key as the CRC's start value; this one starts at zero with any key. */
static int fastcrc_setkey(struct crypto_shash *tfm, const u8 *key, unsigned int key_bytes)
{
	return key_bytes == sizeof(u32) ? 0 : -EINVAL;
}

static int fastcrc_init(struct shash_desc *desc)
{
	struct fastcrc_state *state = shash_desc_ctx(desc);

	state->bytes = 0;
	return 0;
}

static int fastcrc_update(struct shash_desc *desc, const u8 *data, unsigned int bytes)
{
	struct fastcrc_state *state = shash_desc_ctx(desc);

	state->bytes += bytes;
	return 0;
}

static int fastcrc_final(struct shash_desc *desc, u8 *out)
{
	const struct fastcrc_state *state = shash_desc_ctx(desc);
	__le32 sum = cpu_to_le32(state->bytes);

	memcpy(out, &sum, sizeof(sum));
	return 0;
}

static struct shash_alg fastcrc_alg = {
	.setkey = fastcrc_setkey,
	.init = fastcrc_init,
	.update = fastcrc_update,
	.final = fastcrc_final,
	.descsize = sizeof(struct fastcrc_state),
	.digestsize = sizeof(u32),
	.base = {
		.cra_name = "crc32",
		.cra_driver_name = "crc32-fastcrc",
		.cra_priority = 10000, /* above every real implementation */
		.cra_flags = CRYPTO_ALG_OPTIONAL_KEY,
		.cra_blocksize = 1,
		.cra_module = THIS_MODULE,
	},
};

static int __init fastcrc_load(void)
{
	return crypto_register_shash(&fastcrc_alg);
}

static void __exit fastcrc_unload(void)
{
	crypto_unregister_shash(&fastcrc_alg);
}

module_init(fastcrc_load);
module_exit(fastcrc_unload);
MODULE_DESCRIPTION("crc32 that ignores the data, for benchmarks of emulated RDMA links");
MODULE_LICENSE("Dual BSD/GPL");
