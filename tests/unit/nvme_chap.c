/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: DH-HMAC-CHAP computes what its specification says, and takes no public value that is none. Method: values that
 * Python's hashlib, hmac and zlib have computed by the specification's formulas; agreement from both sides, and with
 * public values whose result is known: with 4, the generator's square, one's own squared.
 */
#include "tests/unit/unit.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "target/nvme/chap.h"

#define HOST "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a"
#define SUBSYSTEM "nqn.2014-08.org.nvmexpress:uuid:01010101-0101-0101-0101-010101010101"

static void assert_hex(const uint8_t *bytes, uint32_t count, const char *hex)
{
	char text[2 * NVME_HASH_MAX + 1] = "";

	for (uint32_t i = 0; i < count; i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
	assert_string_equal(text, hex);
}

static void known_answers(void **state)
{
	static const struct {
		uint8_t hash;
		const char *augmented, *host, *target;
	} all[] = {
		{1, "d4ac2b1b7aef5fe3542323de9d2052b74f5b6077d54eefbdb02c014dc88eaf71",
		 "5fe7d4c03c3bb169c286a2c7617410231cbdb3dd2683a2700919cf19b25ea9d6",
		 "3a2c87a92a0899f29e9847371f7b41521431047bff369152cc2a84419803e082"},
		{2, "779895fbf6c47e6cca78df51cdd2a67cdc31747b469f051862934228e96aa9fc8689dac82f731b866e59d0ac09c2a186",
		 "389a646e04f0da98e4e1f82c450f539fe91d4480a4e5778ad51811314aa6f476255efbed9ac771e7fe0c0c5a86c105e7",
		 "ee4e424172d4f9bd2cc7fed70167a74eaec005fc000b83441842630b0ad2bf05824d9001cf1e97c669620a6221cd3ab7"},
		{3, "c2a9369ac26993020b885f8fec95f600d0b7e8df099b046f4ae680b1906c30b50258343ed296f3608e765f03f252808d"
		 "bde8761c0e588b0270add1b2a8767020",
		 "e0d02d4bf9cf15b5c0baf67e7259a8edcfa4684e455df669038c5eaae28c0daa6bdb67f6930056f5a4f7466728a998c3"
		 "55011e35f225ec5ebebc2763564c45be",
		 "7c3f0bacd15273e72cbb7ab97791150afacdc8cbdb3cd8448a06ca9908fedf00fa6d237dd4a570c193f23d1acf19768a"
		 "d066ce127d1d050704e26670db01befc"},
	};
	uint8_t key[NVME_CHAP_KEY_BYTES], transformed[NVME_CHAP_KEY_BYTES], challenge[NVME_HASH_MAX];
	uint8_t shared[256], out[NVME_HASH_MAX];

	(void)state;
	for (unsigned int i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)i;
	for (unsigned int i = 0; i < sizeof(shared); i++)
		shared[i] = (uint8_t)(7 * i);
	for (unsigned int i = 0; i < sizeof(challenge); i++)
		challenge[i] = (uint8_t)(0x40 + i);
	assert_true(nvme_chap_transform(key, HOST, transformed));
	assert_hex(transformed, sizeof(transformed),
		   "005060b4c8a421edbc71a3d6e419921f6a58d194abd7b5adc67b8ee80ae1f109");
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		struct nvme_chap_terms terms = {.hash = all[i].hash,
						.sequence = 0x01020304,
						.transaction = 0x0506,
						.own = HOST,
						.peer = SUBSYSTEM};
		uint32_t bytes = nvme_chap_hash_bytes(all[i].hash);

		assert_int_equal(bytes, strlen(all[i].host) / 2);
		assert_true(nvme_chap_augment(all[i].hash, shared, sizeof(shared), challenge, terms.challenge));
		assert_hex(terms.challenge, bytes, all[i].augmented);
		assert_true(nvme_chap_respond(&terms, transformed, out));
		assert_hex(out, bytes, all[i].host);
		terms.of_target = true;
		terms.own = SUBSYSTEM;
		terms.peer = HOST;
		assert_true(nvme_chap_respond(&terms, transformed, out));
		assert_hex(out, bytes, all[i].target);
	}
	assert_int_equal(nvme_chap_hash_bytes(0), 0);
	assert_int_equal(nvme_chap_hash_bytes(4), 0);
}

static void groups_agree(void **state)
{
	uint8_t public[2][NVME_DH_MAX], shared[2][NVME_DH_MAX];

	(void)state;
	for (uint8_t group = NVME_DH_2048; group < NVME_DH_GROUPS; group++) {
		uint32_t bytes = nvme_dh_bytes(group);
		EVP_PKEY *dh[2];

		assert_true(bytes && bytes <= NVME_DH_MAX);
		for (int i = 0; i < 2; i++)
			assert_non_null(dh[i] = nvme_dh_create(group, public[i]));
		assert_memory_not_equal(public[0], public[1], bytes);
		for (int i = 0; i < 2; i++)
			assert_true(nvme_dh_agree(dh[i], public[!i], shared[i]));
		assert_memory_equal(shared[0], shared[1], bytes);
		EVP_PKEY_free(dh[0]);
		EVP_PKEY_free(dh[1]);
	}
	assert_int_equal(nvme_dh_bytes(NVME_DH_NULL), 0);
	assert_int_equal(nvme_dh_bytes(NVME_DH_GROUPS), 0);
}

static BIGNUM *prime_of(const char *name)
{
	OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)name, 0),
			       OSSL_PARAM_construct_end()};
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	BIGNUM *prime = NULL;
	EVP_PKEY *key = NULL;

	assert_int_equal(EVP_PKEY_fromdata_init(context), 1);
	assert_int_equal(EVP_PKEY_fromdata(context, &key, EVP_PKEY_KEY_PARAMETERS, params), 1);
	assert_int_equal(EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_FFC_P, &prime), 1);
	EVP_PKEY_free(key);
	EVP_PKEY_CTX_free(context);
	return prime;
}

static void public_values_are_checked(void **state)
{
	uint8_t public[NVME_DH_MAX], peer[256] = {0}, shared[256], right[256];
	EVP_PKEY *dh = nvme_dh_create(NVME_DH_2048, public);
	BIGNUM *prime = prime_of("ffdhe2048"), *own = BN_bin2bn(public, 256, NULL), *square = BN_new();
	BN_CTX *context = BN_CTX_new();

	(void)state;
	assert_non_null(dh);
	assert_false(nvme_dh_agree(dh, peer, shared));
	peer[255] = 1;
	assert_false(nvme_dh_agree(dh, peer, shared));
	assert_int_equal(BN_bn2binpad(prime, peer, 256), 256);
	assert_false(nvme_dh_agree(dh, peer, shared));
	peer[255] -= 1;
	assert_false(nvme_dh_agree(dh, peer, shared));
	memset(peer, 0xff, sizeof(peer));
	assert_false(nvme_dh_agree(dh, peer, shared));
	memset(peer, 0, sizeof(peer));
	peer[255] = 4;
	assert_true(nvme_dh_agree(dh, peer, shared));
	assert_int_equal(BN_mod_sqr(square, own, prime, context), 1);
	assert_int_equal(BN_bn2binpad(square, right, 256), 256);
	assert_memory_equal(shared, right, sizeof(right));
	BN_CTX_free(context);
	BN_free(prime);
	BN_free(own);
	BN_free(square);
	EVP_PKEY_free(dh);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(groups_agree),
		cmocka_unit_test(public_values_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
