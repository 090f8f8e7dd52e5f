//! A strict reader of the few JSON tokens that a usual report has.
//!
//! Everything else is `None`: such a record is left to the decoder in Python.

/// A position in the bytes of a record.
pub struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks, by the highest bit of each byte up to the first such byte, quotes, escapes, controls and
/// bytes beyond 0x7e.
#[inline(always)]
fn special(word: u64) -> u64 {
    let below = word.wrapping_sub(ONES * 0x20) & !word;
    let equal = |byte: u64| {
        let difference = word ^ (ONES * byte);
        difference.wrapping_sub(ONES) & !difference
    };
    (below | equal(b'"' as u64) | equal(b'\\' as u64) | equal(0x7f) | word) & HIGHS
}

impl<'a> Tokens<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Tokens { bytes, at: 0 }
    }

    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline(always)]
    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Passes a punctuation mark, with blanks before it.
    #[inline(always)]
    pub fn mark(&mut self, mark: u8) -> Option<()> {
        if self.peek() != Some(mark) {
            self.skip_blanks();
            if self.peek() != Some(mark) {
                return None;
            }
        }
        self.at += 1;
        Some(())
    }

    /// Passes a comma, and returns true; or the end of an object, and returns false.
    #[inline(always)]
    pub fn more(&mut self) -> Option<bool> {
        self.skip_blanks();
        let more = match self.peek()? {
            b',' => true,
            b'}' => false,
            _ => return None,
        };
        self.at += 1;
        Some(more)
    }

    /// The bytes that are left.
    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Whether only blanks are left.
    pub fn ended(&mut self) -> bool {
        self.skip_blanks();
        self.at == self.bytes.len()
    }

    /// Whether a string follows.
    #[inline(always)]
    pub fn at_string(&mut self) -> bool {
        self.skip_blanks();
        self.peek() == Some(b'"')
    }

    /// Passes a string without escapes and controls. Returns its bytes, which are UTF-8.
    #[inline(always)]
    pub fn string(&mut self) -> Option<&'a [u8]> {
        self.mark(b'"')?;
        let (start, mut ascii) = (self.at, true);
        loop {
            if let Some(chunk) = self.bytes.get(self.at..self.at + 8) {
                let found = special(u64::from_le_bytes(chunk.try_into().unwrap()));
                if found == 0 {
                    self.at += 8;
                    continue;
                }
                self.at += found.trailing_zeros() as usize / 8;
            }
            match self.peek()? {
                b'"' => break,
                b'\\' | 0..=0x1f | 0x7f => return None,
                0x80.. => ascii = false,
                _ => (),
            }
            self.at += 1;
        }
        let text = &self.bytes[start..self.at];
        self.at += 1;
        if !ascii && std::str::from_utf8(text).is_err() {
            return None;
        }
        Some(text)
    }

    /// Passes a string as `string` does, a whole number of at most 17 digits or `null`.
    ///
    /// Returns its bytes, with the quotation marks of a string.
    #[inline(always)]
    pub fn scalar(&mut self) -> Option<&'a [u8]> {
        self.skip_blanks();
        let start = self.at;
        match self.peek()? {
            b'"' => {
                self.string()?;
            }
            b'n' => {
                if self.bytes.get(start..start + 4)? != b"null" {
                    return None;
                }
                self.at += 4;
            }
            _ => return self.number(),
        }
        Some(&self.bytes[start..self.at])
    }

    /// Passes a whole number of at most 17 digits, as Python writes it.
    ///
    /// A fraction or an exponent is met by the next call, which finds no punctuation mark.
    #[inline(always)]
    pub fn number(&mut self) -> Option<&'a [u8]> {
        self.skip_blanks();
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = &self.bytes[first..self.at];
        let zero = digits.first() == Some(&b'0');
        // Neither 01 nor -0.
        if digits.is_empty() || digits.len() > 17 || zero && self.at - start > 1 {
            return None;
        }
        Some(&self.bytes[start..self.at])
    }
}

/// The value of a whole number of at most 17 digits, as Python writes it; None for other texts.
pub fn whole_number(text: &[u8]) -> Option<i64> {
    let (mut tokens, negative) = (Tokens::new(text), text.first() == Some(&b'-'));
    if tokens.number()? != text {
        return None;
    }
    let digits = text[usize::from(negative)..].iter();
    let number = digits.fold(0, |number, digit| 10 * number + i64::from(digit - b'0'));
    Some(if negative { -number } else { number })
}
