//! Keyed BLAKE2b (RFC 7693) of several short texts at once, a lane of a vector each.

use std::arch::x86_64::*;

use crate::blake2b::{BLOCK, Hash, IV, SIGMA, round};

/// Defines `hash` for a kind of vectors, with the module's own `add`, `xor` and rotations.
macro_rules! hash_lanes {
    ($feature:literal, $vector:ty, $lanes:literal, $load:ident, $store:ident, $zero:ident) => {
        #[target_feature(enable = $feature)]
        fn load(words: [u64; $lanes]) -> $vector {
            // Safety: as many words as the vector has, and any alignment.
            unsafe { $load(words.as_ptr().cast()) }
        }

        /// The function G of RFC 7693 in every lane.
        #[inline]
        #[target_feature(enable = $feature)]
        fn mix(v: &mut [$vector; 16], [a, b, c, d]: [usize; 4], x: $vector, y: $vector) {
            v[a] = add(add(v[a], v[b]), x);
            v[d] = rotate_32(xor(v[d], v[a]));
            v[c] = add(v[c], v[d]);
            v[b] = rotate_24(xor(v[b], v[c]));
            v[a] = add(add(v[a], v[b]), y);
            v[d] = rotate_16(xor(v[d], v[a]));
            v[c] = add(v[c], v[d]);
            v[b] = rotate_63(xor(v[b], v[c]));
        }

        /// Hashes texts of 1 to 128 bytes. keyed: the state after the block of the key.
        #[target_feature(enable = $feature)]
        pub fn hash(keyed: &[u64; 8], texts: &[&[u8]; $lanes]) -> [Hash; $lanes] {
            let (mut words, mut used) = ([[0u64; $lanes]; 16], 0);
            for (lane, text) in texts.iter().enumerate() {
                let chunks = text.chunks_exact(8);
                let (count, rest) = (chunks.len(), chunks.remainder());
                for (word, chunk) in words.iter_mut().zip(chunks) {
                    word[lane] = u64::from_le_bytes(chunk.try_into().unwrap());
                }
                if !rest.is_empty() {
                    let mut last = [0; 8];
                    last[..rest.len()].copy_from_slice(rest);
                    words[count][lane] = u64::from_le_bytes(last);
                }
                used = used.max(text.len().div_ceil(8));
            }
            let mut message = [$zero(); 16];
            for (word, lanes) in message.iter_mut().zip(&words[..used]) {
                *word = load(*lanes);
            }
            let mut v = [$zero(); 16];
            for i in 0..8 {
                v[i] = load([keyed[i]; $lanes]);
                v[i + 8] = load([IV[i]; $lanes]);
            }
            v[12] = xor(v[12], load(texts.map(|text| (BLOCK + text.len()) as u64)));
            v[14] = xor(v[14], load([!0; $lanes]));
            for round in 0..12 {
                let s = &SIGMA[round % 10];
                round!(mix, &mut v, message, s);
            }
            let half = |i: usize| {
                let word = xor(xor(load([keyed[i]; $lanes]), v[i]), v[i + 8]);
                let mut lanes = [0u64; $lanes];
                // Safety: as many words as the vector has, and any alignment.
                unsafe { $store(lanes.as_mut_ptr().cast(), word) };
                lanes.map(u64::swap_bytes)
            };
            let (hi, lo) = (half(0), half(1));
            std::array::from_fn(|i| (hi[i], lo[i]))
        }
    };
}

/// Four lanes, of AVX2.
pub mod four {
    use super::*;

    hash_lanes!("avx2", __m256i, 4, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_setzero_si256);

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(x: __m256i, y: __m256i) -> __m256i {
        _mm256_add_epi64(x, y)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn xor(x: __m256i, y: __m256i) -> __m256i {
        _mm256_xor_si256(x, y)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate_32(x: __m256i) -> __m256i {
        _mm256_shuffle_epi32::<0xb1>(x)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate_24(x: __m256i) -> __m256i {
        let bytes = [0x0201000706050403, 0x0a09080f0e0d0c0b];
        _mm256_shuffle_epi8(x, load([bytes[0], bytes[1], bytes[0], bytes[1]]))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate_16(x: __m256i) -> __m256i {
        let bytes = [0x0100070605040302, 0x09080f0e0d0c0b0a];
        _mm256_shuffle_epi8(x, load([bytes[0], bytes[1], bytes[0], bytes[1]]))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate_63(x: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_srli_epi64::<63>(x), _mm256_add_epi64(x, x))
    }
}

/// Eight lanes, of AVX-512.
pub mod eight {
    use super::*;

    hash_lanes!(
        "avx512f",
        __m512i,
        8,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_setzero_si512
    );

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add(x: __m512i, y: __m512i) -> __m512i {
        _mm512_add_epi64(x, y)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn xor(x: __m512i, y: __m512i) -> __m512i {
        _mm512_xor_si512(x, y)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rotate_32(x: __m512i) -> __m512i {
        _mm512_ror_epi64::<32>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rotate_24(x: __m512i) -> __m512i {
        _mm512_ror_epi64::<24>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rotate_16(x: __m512i) -> __m512i {
        _mm512_ror_epi64::<16>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rotate_63(x: __m512i) -> __m512i {
        _mm512_ror_epi64::<63>(x)
    }
}
