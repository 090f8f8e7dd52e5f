//! Keyed BLAKE2b (RFC 7693) of 128 bits, of one id or of four ids at once.

const BLOCK: usize = 128;
const OUTPUT: u64 = 16; // bytes
const IV: [u64; 8] = [
    0x6a09e667f3bcc908,
    0xbb67ae8584caa73b,
    0x3c6ef372fe94f82b,
    0xa54ff53a5f1d36f1,
    0x510e527fade682d1,
    0x9b05688c2b3e6c1f,
    0x1f83d9abfb41bd6b,
    0x5be0cd19137e2179,
];
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// The function G of RFC 7693, section 3.1, on the words a, b, c, d of the work vector.
#[inline(always)]
fn mix(v: &mut [u64; 16], [a, b, c, d]: [usize; 4], x: u64, y: u64) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}

/// A round: mixes the columns of the work vector, then its diagonals. The indices are literals, so
/// that the vector stays in registers.
macro_rules! round {
    ($mix:ident, $v:expr, $message:expr, $s:expr $(, $constant:expr)*) => {
        $mix($v, [0, 4, 8, 12], $message[$s[0]], $message[$s[1]] $(, $constant)*);
        $mix($v, [1, 5, 9, 13], $message[$s[2]], $message[$s[3]] $(, $constant)*);
        $mix($v, [2, 6, 10, 14], $message[$s[4]], $message[$s[5]] $(, $constant)*);
        $mix($v, [3, 7, 11, 15], $message[$s[6]], $message[$s[7]] $(, $constant)*);
        $mix($v, [0, 5, 10, 15], $message[$s[8]], $message[$s[9]] $(, $constant)*);
        $mix($v, [1, 6, 11, 12], $message[$s[10]], $message[$s[11]] $(, $constant)*);
        $mix($v, [2, 7, 8, 13], $message[$s[12]], $message[$s[13]] $(, $constant)*);
        $mix($v, [3, 4, 9, 14], $message[$s[14]], $message[$s[15]] $(, $constant)*);
    };
}

/// The function F of RFC 7693, section 3.2.
///
/// message: a block's words; length: the bytes up to the end of the block.
fn compress(state: &mut [u64; 8], message: &[u64; 16], length: u64, last: bool) {
    let mut v = [0; 16];
    v[..8].copy_from_slice(state);
    v[8..].copy_from_slice(&IV);
    v[12] ^= length;
    if last {
        v[14] = !v[14];
    }
    for round in 0..12 {
        let s = &SIGMA[round % 10];
        round!(mix, &mut v, message, s);
    }
    for i in 0..8 {
        state[i] ^= v[i] ^ v[i + 8];
    }
}

/// The words of the first block of a text; bytes after the text's end are zero.
#[inline(always)]
fn words(text: &[u8]) -> [u64; 16] {
    let text = &text[..text.len().min(BLOCK)];
    let mut message = [0; 16];
    let chunks = text.chunks_exact(8);
    let rest = chunks.remainder();
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        message[text.len() / 8] = u64::from_le_bytes(word);
    }
    for (word, chunk) in message.iter_mut().zip(chunks) {
        *word = u64::from_le_bytes(chunk.try_into().unwrap());
    }
    message
}

/// Both halves of a hash, the first bytes in the highest bits.
pub type Hash = (u64, u64);

/// Hashes ids with a key. Only the state after the key's block is stored; it is as secret as the key.
pub struct Hasher {
    keyed: [u64; 8],
    wide: bool,
}

impl Hasher {
    /// key: of 1 to 64 bytes.
    pub fn new(key: &[u8]) -> Option<Self> {
        if key.is_empty() || key.len() > 64 {
            return None;
        }
        let mut keyed = IV;
        keyed[0] ^= 0x0101_0000 ^ (key.len() as u64) << 8 ^ OUTPUT;
        compress(&mut keyed, &words(key), BLOCK as u64, false);
        #[cfg(target_arch = "x86_64")]
        let wide = is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        let wide = false;
        Some(Hasher { keyed, wide })
    }

    /// Hashes a text of at least one byte.
    pub fn hash(&self, text: &[u8]) -> Hash {
        let (mut state, mut start) = (self.keyed, 0);
        while text.len() - start > BLOCK {
            let end = start + BLOCK;
            compress(&mut state, &words(&text[start..end]), (BLOCK + end) as u64, false);
            start = end;
        }
        compress(&mut state, &words(&text[start..]), (BLOCK + text.len()) as u64, true);
        (state[0].swap_bytes(), state[1].swap_bytes())
    }

    /// Hashes four texts of at least one byte.
    pub fn hash_four(&self, texts: &[&[u8]; 4]) -> [Hash; 4] {
        #[cfg(target_arch = "x86_64")]
        if self.wide && texts.iter().all(|text| text.len() <= BLOCK) {
            // Safety: `wide` says that this processor has AVX2.
            return unsafe { wide::hash_four(&self.keyed, texts) };
        }
        texts.map(|text| self.hash(text))
    }
}

impl Drop for Hasher {
    fn drop(&mut self) {
        for word in &mut self.keyed {
            // Safety: a valid place of this value; a volatile write is not left out.
            unsafe { std::ptr::write_volatile(word, 0) };
        }
    }
}

/// Four texts of at most a block at once, a lane of AVX2 each.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::{BLOCK, Hash, IV, SIGMA, words};

    #[target_feature(enable = "avx2")]
    fn lanes(words: [u64; 4]) -> __m256i {
        let [a, b, c, d] = words.map(|word| word as i64);
        _mm256_set_epi64x(d, c, b, a)
    }

    /// The function G of RFC 7693 in every lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn mix(
        v: &mut [__m256i; 16],
        [a, b, c, d]: [usize; 4],
        x: __m256i,
        y: __m256i,
        by_24: __m256i,
        by_16: __m256i,
    ) {
        v[a] = _mm256_add_epi64(_mm256_add_epi64(v[a], v[b]), x);
        v[d] = _mm256_shuffle_epi32::<0xb1>(_mm256_xor_si256(v[d], v[a]));
        v[c] = _mm256_add_epi64(v[c], v[d]);
        v[b] = _mm256_shuffle_epi8(_mm256_xor_si256(v[b], v[c]), by_24);
        v[a] = _mm256_add_epi64(_mm256_add_epi64(v[a], v[b]), y);
        v[d] = _mm256_shuffle_epi8(_mm256_xor_si256(v[d], v[a]), by_16);
        v[c] = _mm256_add_epi64(v[c], v[d]);
        let mixed = _mm256_xor_si256(v[b], v[c]);
        v[b] = _mm256_or_si256(_mm256_srli_epi64::<63>(mixed), _mm256_add_epi64(mixed, mixed));
    }

    #[target_feature(enable = "avx2")]
    pub fn hash_four(keyed: &[u64; 8], texts: &[&[u8]; 4]) -> [Hash; 4] {
        let by_24 =
            lanes([0x0201000706050403, 0x0a09080f0e0d0c0b, 0x0201000706050403, 0x0a09080f0e0d0c0b]);
        let by_16 =
            lanes([0x0100070605040302, 0x09080f0e0d0c0b0a, 0x0100070605040302, 0x09080f0e0d0c0b0a]);
        let [a, b, c, d] = texts.map(words);
        let mut message = [_mm256_setzero_si256(); 16];
        for (i, word) in message.iter_mut().enumerate() {
            *word = lanes([a[i], b[i], c[i], d[i]]);
        }
        let mut v = [_mm256_setzero_si256(); 16];
        for i in 0..8 {
            v[i] = lanes([keyed[i]; 4]);
            v[i + 8] = lanes([IV[i]; 4]);
        }
        v[12] = _mm256_xor_si256(v[12], lanes(texts.map(|text| (BLOCK + text.len()) as u64)));
        v[14] = _mm256_xor_si256(v[14], lanes([!0; 4]));
        for round in 0..12 {
            let s = &SIGMA[round % 10];
            round!(mix, &mut v, message, s, by_24, by_16);
        }
        let half = |i: usize| {
            let word = _mm256_xor_si256(_mm256_xor_si256(lanes([keyed[i]; 4]), v[i]), v[i + 8]);
            let mut four = [0u64; 4];
            // Safety: 32 bytes, and any alignment.
            unsafe { _mm256_storeu_si256(four.as_mut_ptr().cast(), word) };
            four.map(u64::swap_bytes)
        };
        let (hi, lo) = (half(0), half(1));
        std::array::from_fn(|i| (hi[i], lo[i]))
    }
}
