//! Tables from JSON tokens to numbers: the values of an attribute, or the periods.

use std::collections::HashMap;

const SHORT: usize = 15; // bytes of a token that fits in one word with its length
const FEW: usize = 8; // tokens that are compared one after another
const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// Numbers by token.
pub struct Table {
    few: Vec<(u128, i32)>,
    many: Vec<Option<(u128, i32)>>, // open addressing; at most half full; empty while there are few
    long: HashMap<Vec<u8>, i32>,
}

#[inline(always)]
fn packed(token: &[u8]) -> u128 {
    let mut word = [0u8; 16];
    word[..token.len()].copy_from_slice(token);
    word[SHORT] = token.len() as u8;
    u128::from_le_bytes(word)
}

impl FromIterator<(Vec<u8>, i32)> for Table {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, i32)>>(numbers: I) -> Self {
        let (long, short): (Vec<_>, Vec<_>) =
            numbers.into_iter().partition(|(token, _)| token.len() > SHORT);
        let mut few: Vec<_> =
            short.iter().map(|(token, number)| (packed(token), *number)).collect();
        let mut table = Table { few: Vec::new(), many: Vec::new(), long: HashMap::from_iter(long) };
        if few.len() > FEW {
            table.many = vec![None; (2 * few.len()).next_power_of_two()];
            for (word, number) in few.drain(..) {
                let mut row = table.first_row(word);
                while table.many[row].is_some() {
                    row = table.next(row);
                }
                table.many[row] = Some((word, number));
            }
        }
        table.few = few;
        table
    }
}

impl Table {
    #[inline(always)]
    pub fn find(&self, token: &[u8]) -> Option<i32> {
        if token.len() > SHORT {
            return self.long.get(token).copied();
        }
        let word = packed(token);
        if self.many.is_empty() {
            return self.few.iter().find(|(known, _)| *known == word).map(|(_, number)| *number);
        }
        let mut row = self.first_row(word);
        while let Some((known, number)) = self.many[row] {
            if known == word {
                return Some(number);
            }
            row = self.next(row);
        }
        None
    }

    #[inline(always)]
    fn first_row(&self, word: u128) -> usize {
        let mixed = (word.wrapping_mul(FACTOR) >> 64) as u64;
        (mixed >> 32) as usize & (self.many.len() - 1)
    }

    #[inline(always)]
    fn next(&self, row: usize) -> usize {
        (row + 1) & (self.many.len() - 1)
    }
}
