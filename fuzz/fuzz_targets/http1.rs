//! An HTTP/1.1 answer of any bytes, cut anywhere: no panic, and the cuts make no difference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::http1::{Decoder, Fault, Piece};

fn read<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Result<(Vec<u8>, bool), Fault> {
    let mut decoder = Decoder::default();
    let mut body = Vec::new();
    for part in parts {
        decoder.push(part, |piece| {
            if let Piece::Body(bytes) = piece {
                body.extend_from_slice(bytes);
            }
        })?;
    }
    decoder.close()?;
    Ok((body, decoder.can_go_on()))
}

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (step, bytes) = input;
    let whole = read(std::iter::once(bytes.as_slice()));
    let cut = read(bytes.chunks(usize::from(step).max(1)));
    assert_eq!(whole.is_ok(), cut.is_ok());
    if let (Ok(whole), Ok(cut)) = (whole, cut) {
        assert_eq!(whole, cut);
    }
});
