/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy for sizes that pass the cache: non-temporal stores, which save
 * reading the destination first and leave the cache to others.  Where the
 * processor has none that we know, memcpy.
 */
#include "net/shm_copy.h"

#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>

#define LINE 64

static void line_stream(char *dst, const char *src)
{
	__m128i a = _mm_loadu_si128((const __m128i *)(const void *)src);
	__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(src + 16));
	__m128i c = _mm_loadu_si128((const __m128i *)(const void *)(src + 32));
	__m128i d = _mm_loadu_si128((const __m128i *)(const void *)(src + 48));

	_mm_stream_si128((__m128i *)(void *)dst, a);
	_mm_stream_si128((__m128i *)(void *)(dst + 16), b);
	_mm_stream_si128((__m128i *)(void *)(dst + 32), c);
	_mm_stream_si128((__m128i *)(void *)(dst + 48), d);
}

void ln_shm_copy_stream(void *dst, const void *src, size_t bytes)
{
	size_t head = -(uintptr_t)dst % LINE;
	const char *s = src;
	char *d = dst;

	head = head < bytes ? head : bytes;
	memcpy(d, s, head);
	d += head;
	s += head;
	bytes -= head;
	for (; bytes >= LINE; bytes -= LINE, d += LINE, s += LINE)
		line_stream(d, s);
	/* Streamed stores are not ordered with those that follow: a signal. */
	_mm_sfence();
	memcpy(d, s, bytes);
}
#else
void ln_shm_copy_stream(void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
}
#endif
