//! The last bytes of recent reports, from their values on, with the codes in them.
//!
//! Many reports have equal values, which are then decoded once.

const SLOTS: usize = 1 << 10;
const LONGEST: usize = 1 << 9; // bytes of an ending that is stored
const FEWEST: usize = 64; // reports of a batch, below which nothing is gained
const TRIAL: u32 = 512; // endings after which at least a fourth must have been found
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Codes by ending, for one batch. A slot holds the last of the endings that fall into it.
pub struct Endings<'a> {
    slots: Vec<Option<(&'a [u8], Vec<i32>)>>, // no slots if nothing is stored
    asked: u32,
    found: u32,
}

#[inline(always)]
fn slot_of(ending: &[u8]) -> usize {
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(FACTOR);
        mixed ^ mixed >> 32
    };
    let chunks = ending.chunks_exact(8);
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    let whole = chunks.fold(ending.len() as u64, |hash, chunk| {
        mix(hash, u64::from_le_bytes(chunk.try_into().unwrap()))
    });
    mix(whole, u64::from_le_bytes(last)) as usize & (SLOTS - 1)
}

impl<'a> Endings<'a> {
    /// count: of the reports in the batch.
    pub fn new(count: usize) -> Self {
        let slots = if count < FEWEST { 0 } else { SLOTS };
        Endings { slots: vec![None; slots], asked: 0, found: 0 }
    }

    /// Finds an ending, and copies its codes; or returns the slot for the codes, if there is one.
    #[inline(always)]
    pub fn find(&mut self, ending: &[u8], codes: &mut [i32]) -> Found {
        let useless = self.asked == TRIAL && 4 * self.found < TRIAL;
        if self.slots.is_empty() || useless || ending.len() > LONGEST {
            return Found::Nowhere;
        }
        let slot = slot_of(ending);
        let stored = self.slots[slot].as_ref().filter(|(known, _)| *known == ending);
        if self.asked < TRIAL {
            self.asked += 1;
            self.found += u32::from(stored.is_some());
        }
        match stored {
            None => Found::Slot(slot),
            Some((_, known)) => {
                codes.copy_from_slice(known);
                Found::Codes
            }
        }
    }

    /// Stores the codes of an ending in the slot that was found for it.
    pub fn store(&mut self, slot: usize, ending: &'a [u8], codes: &[i32]) {
        let mut room = self.slots[slot].take().map_or(Vec::new(), |(_, room)| room);
        room.clear();
        room.extend_from_slice(codes);
        self.slots[slot] = Some((ending, room));
    }
}

/// The answer to a search for an ending.
pub enum Found {
    Codes,
    Slot(usize),
    Nowhere,
}
