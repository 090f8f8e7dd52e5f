//! Usual reports, `{"person": "p1", "period": "2021-01", "values": {"poverty": 1}}`, to codes.

use std::borrow::Cow;

use crate::endings::{Endings, Found};
use crate::tables::Table;
use crate::tokens::{Tokens, whole_number};

const LONGEST_ID: usize = 256; // characters
pub const NOT_SAID: i32 = -2;

/// The whole numbers that an attribute takes: multiples of `step`, from `least` to `most`.
pub struct Scale {
    pub least: i64,
    pub most: i64,
    pub step: i64,
}

pub struct Attribute {
    pub name: Vec<u8>,
    pub scale: Option<Scale>,
    pub codes: Table,
}

impl Attribute {
    /// The code of a value, a listed one or a number; None for any other.
    #[inline(always)]
    fn code(&self, token: &[u8]) -> Option<i32> {
        let listed = self.codes.find(token);
        let (None, Some(scale)) = (listed, &self.scale) else { return listed };
        let number = whole_number(unquoted(token))?;
        let inside = scale.least <= number && number <= scale.most;
        let above = number.wrapping_sub(scale.least);
        (inside && above % scale.step == 0).then(|| (above / scale.step) as i32)
    }
}

fn unquoted(token: &[u8]) -> &[u8] {
    token.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(token)
}

/// The rule for the spellings of an ASCII id. Ids beyond ASCII are left where there is any rule.
///
/// as_written: whether unusual ids are no matter for the decoder in Python.
pub struct IdRule {
    pub any: bool,
    pub as_written: bool,
    pub fold: bool,
}

impl IdRule {
    /// The form of an ASCII id that all of its spellings share.
    #[inline(always)]
    pub fn normal<'a>(&self, id: &'a [u8]) -> Cow<'a, [u8]> {
        if self.fold && id.iter().any(u8::is_ascii_uppercase) {
            return Cow::Owned(id.to_ascii_lowercase());
        }
        Cow::Borrowed(id)
    }
}

const DIGIT: u8 = 1;
const LETTER: u8 = 2;
const MARK: u8 = 4;
const POINT: u8 = 8;
const ODD: u8 = 16;
const BEYOND: u8 = 32; // ASCII
const KEPT_DIGITS: usize = 15; // by a spreadsheet
const LONGEST_WORD: usize = 12; // bytes, at least those of the longest word for nobody
const WORDS: [&[u8]; 25] = [
    b"na",
    b"nan",
    b"null",
    b"none",
    b"nil",
    b"undefined",
    b"missing",
    b"unknown",
    b"unbekannt",
    b"total",
    b"subtotal",
    b"grandtotal",
    b"sum",
    b"summe",
    b"gesamt",
    b"gesamtsumme",
    b"insgesamt",
    b"ensemble",
    b"all",
    b"alle",
    b"test",
    b"dummy",
    b"anonym",
    b"anonymous",
    b"n/a",
]; // for nobody and for totals, as in `id_forms.py`
const MONTH: usize = 3; // letters of a month's name

/// The kind of each byte of an id.
const KINDS: [u8; 256] = {
    let mut kinds = [ODD; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' => LETTER,
            b'-' | b'_' | b'/' | b':' | b'@' => MARK,
            b'.' | b',' => POINT,
            0x80.. => BEYOND,
            _ => ODD,
        };
        byte += 1;
    }
    kinds
};

/// Whether an id certainly has no form that needs a look, such as 1.23E+11, `12.0`, NA or a blank
/// at its end; the same quick look as in `templates.py`.
#[inline(always)]
fn is_usual(id: &[u8]) -> bool {
    let kind = id.iter().fold(0, |kind, byte| kind | KINDS[*byte as usize]);
    let (first, last) = (id[0], id[id.len() - 1]);
    let framed = (KINDS[first as usize] | KINDS[last as usize]) <= DIGIT | LETTER;
    const BOTH: u8 = DIGIT | LETTER;
    const JOINED: u8 = DIGIT | MARK;
    const NAMED: u8 = LETTER | MARK;
    const ALL: u8 = BOTH | MARK;
    match kind {
        BOTH => true,
        DIGIT => id.len() <= KEPT_DIGITS || last != b'0',
        LETTER => !WORDS.iter().any(|word| id.eq_ignore_ascii_case(word)),
        _ if !framed => false,
        BEYOND.. => true,
        JOINED => true,
        NAMED => !WORDS.iter().any(|word| id.eq_ignore_ascii_case(word)),
        ALL if id.iter().filter(|byte| byte.is_ascii_alphabetic()).count() != MONTH => true,
        _ => kind & LETTER > 0 && kind < ODD && id.len() > LONGEST_WORD,
    }
}

/// What a study declares.
pub struct Declared {
    pub attributes: Vec<Attribute>,
    pub periods: Table,
    pub ids: IdRule,
}

/// A report that was read.
pub struct Report<'a> {
    pub period: i32,
    pub person: &'a [u8],
}

impl Declared {
    /// Reads a report; None for a record that is left to the decoder in Python.
    ///
    /// endings: of earlier reports for the same study.
    /// codes: by attribute; all NOT_SAID before, and set for the report's cells. After None they are
    /// any.
    #[inline(always)]
    pub fn read<'a>(
        &self,
        bytes: &'a [u8],
        endings: &mut Endings<'a>,
        codes: &mut [i32],
    ) -> Option<Report<'a>> {
        let mut tokens = Tokens::new(bytes);
        let (mut person, mut period, mut cells) = (None, None, 0);
        let mut new_ending = None;
        tokens.mark(b'{')?;
        loop {
            let key = tokens.string()?;
            tokens.mark(b':')?;
            match key {
                b"person" if person.is_none() => person = Some(self.person(&mut tokens)?),
                b"period" if period.is_none() => {
                    period = Some(self.periods.find(tokens.scalar()?)?);
                }
                b"values" if cells == 0 => {
                    // After the other two, the values are the end of a usual report.
                    if let (Some(person), Some(period)) = (person, period) {
                        match endings.find(tokens.rest(), codes) {
                            Found::Codes => return Some(Report { period, person }),
                            Found::Slot(slot) => new_ending = Some((slot, tokens.rest())),
                            Found::Nowhere => (),
                        }
                    }
                    cells = self.values(&mut tokens, codes)?;
                }
                _ => return None,
            }
            if !tokens.more()? {
                break;
            }
        }
        if cells == 0 || !tokens.ended() {
            return None;
        }
        let report = Report { period: period?, person: person? };
        if let Some((slot, ending)) = new_ending {
            endings.store(slot, ending, codes);
        }
        Some(report)
    }

    /// Reads an id.
    #[inline(always)]
    fn person<'a>(&self, tokens: &mut Tokens<'a>) -> Option<&'a [u8]> {
        let text = if tokens.at_string() { tokens.string()? } else { tokens.number()? };
        if self.ids.any && !text.is_ascii() || text.is_empty() {
            return None;
        }
        if !self.ids.as_written && !is_usual(text) {
            return None;
        }
        if text.len() > LONGEST_ID {
            let characters = text.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            if characters > LONGEST_ID {
                return None;
            }
        }
        Some(text)
    }

    /// Reads the values. Returns the number of cells, at least one.
    #[inline(always)]
    fn values<'a>(&self, tokens: &mut Tokens<'a>, codes: &mut [i32]) -> Option<usize> {
        let (mut next, mut cells) = (0, 0);
        tokens.mark(b'{')?;
        loop {
            let name = tokens.string()?;
            tokens.mark(b':')?;
            let index = self.attribute(name, next)?;
            if codes[index] != NOT_SAID {
                return None;
            }
            codes[index] = self.attributes[index].code(tokens.scalar()?)?;
            (next, cells) = (index + 1, cells + 1);
            if !tokens.more()? {
                return Some(cells);
            }
        }
    }

    /// Finds an attribute by name. next: the index to try first.
    #[inline(always)]
    fn attribute(&self, name: &[u8], next: usize) -> Option<usize> {
        let likely = self.attributes.get(next);
        if likely.is_some_and(|attribute| attribute.name == name) {
            return Some(next);
        }
        self.attributes.iter().position(|attribute| attribute.name == name)
    }
}
