//! Keyed BLAKE2b (RFC 7693) of 128 bits, of one id or of eight ids at once.

#[cfg(target_arch = "x86_64")]
use crate::vectors::{eight, four};

pub const BLOCK: usize = 128;
const OUTPUT: u64 = 16; // bytes
pub const IV: [u64; 8] = [
    0x6a09e667f3bcc908,
    0xbb67ae8584caa73b,
    0x3c6ef372fe94f82b,
    0xa54ff53a5f1d36f1,
    0x510e527fade682d1,
    0x9b05688c2b3e6c1f,
    0x1f83d9abfb41bd6b,
    0x5be0cd19137e2179,
];
pub const SIGMA: [[usize; 16]; 10] = [
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
    ($mix:ident, $v:expr, $message:expr, $s:expr) => {
        $mix($v, [0, 4, 8, 12], $message[$s[0]], $message[$s[1]]);
        $mix($v, [1, 5, 9, 13], $message[$s[2]], $message[$s[3]]);
        $mix($v, [2, 6, 10, 14], $message[$s[4]], $message[$s[5]]);
        $mix($v, [3, 7, 11, 15], $message[$s[6]], $message[$s[7]]);
        $mix($v, [0, 5, 10, 15], $message[$s[8]], $message[$s[9]]);
        $mix($v, [1, 6, 11, 12], $message[$s[10]], $message[$s[11]]);
        $mix($v, [2, 7, 8, 13], $message[$s[12]], $message[$s[13]]);
        $mix($v, [3, 4, 9, 14], $message[$s[14]], $message[$s[15]]);
    };
}

pub(crate) use round;

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

pub const EIGHT: usize = 8;

/// Both halves of a hash, the first bytes in the highest bits.
pub type Hash = (u64, u64);

/// Hashes ids with a key. Only the state after the key's block is stored; it is as secret as the key.
pub struct Hasher {
    keyed: [u64; 8],
    vectors: Vectors,
}

/// The vectors of this processor: of eight words, of four words or none.
#[derive(Clone, Copy)]
enum Vectors {
    Eight,
    Four,
    Missing,
}

impl Vectors {
    #[cfg(target_arch = "x86_64")]
    fn found() -> Self {
        if is_x86_feature_detected!("avx512f") {
            return Vectors::Eight;
        }
        if is_x86_feature_detected!("avx2") { Vectors::Four } else { Vectors::Missing }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn found() -> Self {
        Vectors::Missing
    }
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
        Some(Hasher { keyed, vectors: Vectors::found() })
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

    /// Hashes eight texts of at least one byte.
    pub fn hash_eight(&self, texts: &[&[u8]; EIGHT]) -> [Hash; EIGHT] {
        #[cfg(target_arch = "x86_64")]
        if texts.iter().all(|text| text.len() <= BLOCK) {
            let (first, second) = (|i| texts[i], |i| texts[i + 4]);
            // Safety: this processor has these vectors.
            match self.vectors {
                Vectors::Eight => return unsafe { eight::hash(&self.keyed, texts) },
                Vectors::Four => unsafe {
                    let first = four::hash(&self.keyed, &std::array::from_fn(first));
                    let second = four::hash(&self.keyed, &std::array::from_fn(second));
                    return std::array::from_fn(|i| if i < 4 { first[i] } else { second[i - 4] });
                },
                Vectors::Missing => (),
            }
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
